import type { LogChunk } from "../api/types";

/** Limits of the part of one stream that the browser holds, however long the log is. */
export const LIMITS = { lines: 20_000, chars: 2_000_000, lineChars: 4_000 };

export type Stream = "stdout" | "stderr";

export interface LogLine {
  stream: Stream;
  text: string;
  /** Characters at the end of the line that are not held. */
  cutChars: number;
  /** When the line was written, where the cluster knows it. */
  at: string | null;
  /** The number of the reading that brought the line. */
  reading: number;
}

/** The held part of one stream of a rank. */
export interface HeldLog {
  lines: readonly LogLine[];
  chars: number;
  /** The last line has no end yet. */
  isOpen: boolean;
  /** Where the next reading begins, in bytes; negative: before the end. */
  nextOffset: number;
  /** Earlier lines are not held. */
  isCut: boolean;
  isFinal: boolean;
  /** The cluster stopped storing output at its size cap. */
  isTruncated: boolean;
}

/** Nothing was read yet. A negative offset begins that many bytes before the end. */
export function emptyLog(offset: number): HeldLog {
  return { lines: [], chars: 0, isOpen: false, nextOffset: offset, isCut: false, isFinal: false, isTruncated: false };
}

/** Adds a piece of a stream, and drops the first lines above the limits. */
export function appendChunk(log: HeldLog, chunk: LogChunk, reading: number, limits = LIMITS): HeldLog {
  const stream: Stream = chunk.stream === "stderr" ? "stderr" : "stdout";
  const lines = [...log.lines];
  const parts = chunk.text.split("\n");
  const isOpen = chunk.text === "" ? log.isOpen : parts.at(-1) !== "";
  if (parts.at(-1) === "") parts.pop();
  let time = -1;
  parts.forEach((part, line) => {
    while ((chunk.times[time + 1]?.line ?? Infinity) <= line) time += 1;
    const begun = line === 0 && log.isOpen ? lines.pop() : undefined;
    const text = (begun?.text ?? "") + part.slice(0, limits.lineChars);
    lines.push({
      stream,
      text: text.slice(0, limits.lineChars),
      cutChars: (begun?.cutChars ?? 0) + (begun?.text.length ?? 0) + part.length - Math.min(text.length, limits.lineChars),
      at: begun === undefined ? (chunk.times[time]?.at ?? null) : begun.at,
      reading,
    });
  });
  let chars = lines.reduce((sum, { text }) => sum + text.length, 0);
  let first = Math.max(0, lines.length - limits.lines);
  for (const { text } of lines.slice(0, first)) chars -= text.length;
  for (; chars > limits.chars && first < lines.length - 1; first += 1) chars -= lines[first]?.text.length ?? 0;
  const beginsLate = log.nextOffset < 0 && chunk.offset > 0;
  return {
    lines: first === 0 ? lines : lines.slice(first),
    chars,
    isOpen,
    nextOffset: chunk.next_offset,
    isCut: log.isCut || beginsLate || first > 0,
    isFinal: chunk.is_final,
    isTruncated: chunk.is_truncated,
  };
}

/** Whether each line has a time, so that lines of several streams can be ordered by it. */
export function hasAllTimes(logs: readonly HeldLog[]): boolean {
  return logs.every(({ lines }) => lines.every(({ at }) => at !== null));
}

/** The lines of several streams: by time where each line has one, else in the order of reading. */
export function mergedLines(logs: readonly HeldLog[]): readonly LogLine[] {
  const [only, ...others] = logs.filter(({ lines }) => lines.length > 0);
  if (only === undefined) return [];
  if (others.length === 0) return only.lines;
  const isByTime = hasAllTimes(logs);
  // The sort keeps the order of lines that are equal.
  return [only, ...others]
    .flatMap(({ lines }) => lines)
    .sort((a, b) => (isByTime && a.at !== b.at ? Date.parse(a.at ?? "") - Date.parse(b.at ?? "") : a.reading - b.reading));
}

export interface Match {
  line: number;
  start: number;
}

/** Matches of a search that are counted. */
export const MATCHES_MAX = 10_000;

/** The places of a text in lower case, which is not empty, without overlaps. */
export function* placesOf(text: string, wanted: string): Generator<number> {
  const lower = text.toLowerCase();
  for (let start = lower.indexOf(wanted); start >= 0; start = lower.indexOf(wanted, start + wanted.length)) yield start;
}

/** Where a text occurs, upper and lower case alike; at most `MATCHES_MAX` places. */
export function findMatches(lines: readonly LogLine[], sought: string): readonly Match[] {
  const wanted = sought.toLowerCase();
  const found: Match[] = [];
  if (wanted === "") return found;
  for (const [line, { text }] of lines.entries()) {
    for (const start of placesOf(text, wanted)) {
      found.push({ line, start });
      if (found.length === MATCHES_MAX) return found;
    }
  }
  return found;
}
