import type { LogChunk } from "../api/types";

/** What a viewer keeps in memory of one stream, however long the log is. */
export const MAX_KEPT_CHARS = 1_000_000;

export interface LogBuffer {
  text: string;
  /** Where in the file the next read begins, in bytes. */
  nextOffset: number;
  /** Older output that is no longer kept here; the download has it. */
  isCut: boolean;
  isFinal: boolean;
  /** The cluster stopped keeping output at its size cap. */
  isTruncated: boolean;
  ranks: number;
}

/** Nothing read yet. A negative offset begins that many bytes before the end. */
export function emptyBuffer(offset: number): LogBuffer {
  return { text: "", nextOffset: offset, isCut: false, isFinal: false, isTruncated: false, ranks: 1 };
}

/** Adds one read to what is kept, dropping whole lines from the front past the limit. */
export function appendChunk(buffer: LogBuffer, chunk: LogChunk, maxChars = MAX_KEPT_CHARS): LogBuffer {
  let text = buffer.text + chunk.text;
  let isCut = buffer.isCut || (buffer.text === "" && buffer.nextOffset < 0 && chunk.offset > 0);
  if (text.length > maxChars) {
    const from = text.length - maxChars;
    const lineEnd = text.indexOf("\n", from);
    text = text.slice(lineEnd === -1 ? from : lineEnd + 1);
    isCut = true;
  }
  return {
    text,
    nextOffset: chunk.next_offset,
    isCut,
    isFinal: chunk.is_final,
    isTruncated: chunk.is_truncated,
    ranks: Math.max(1, chunk.ranks),
  };
}

export type Stream = "stdout" | "stderr";

export interface LogLine {
  stream: Stream;
  text: string;
}

/** Several streams in one: whole lines in the order in which they were read, and the lines that are not whole yet. */
export interface MergedLog {
  lines: readonly LogLine[];
  open: Readonly<Partial<Record<Stream, string>>>;
}

export const NOTHING_MERGED: MergedLog = { lines: [], open: {} };

/** What a merged view keeps in memory. */
export const MAX_MERGED_LINES = 5_000;

/** Adds a piece of one stream. Never splits a line, whatever of other streams was read meanwhile. */
export function mergePiece(log: MergedLog, stream: Stream, text: string, maxLines = MAX_MERGED_LINES): MergedLog {
  const parts = ((log.open[stream] ?? "") + text).split("\n");
  const open = parts.pop() ?? "";
  const added = parts.map((part) => ({ stream, text: readable(part) }));
  return { lines: [...log.lines, ...added].slice(-maxLines), open: { ...log.open, [stream]: open } };
}

/** All lines, those last that are not whole yet. */
export function mergedLines({ lines, open }: MergedLog): LogLine[] {
  const unfinished = (["stdout", "stderr"] as const).flatMap((stream) => {
    const text = open[stream] ?? "";
    return text === "" ? [] : [{ stream, text: readable(text) }];
  });
  return [...lines, ...unfinished];
}

// eslint-disable-next-line no-control-regex -- escape sequences are what is looked for
const ESCAPES = /\u001b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)|[@-Z\\-_])/g;

/** Text as a terminal would leave it: no colour codes, and of a progress bar only its last state. */
export function readable(text: string): string {
  return text
    .replace(ESCAPES, "")
    .replaceAll("\r\n", "\n")
    .split("\n")
    .map((line) => line.slice(line.lastIndexOf("\r", line.length - 2) + 1).replace(/\r$/, ""))
    .join("\n");
}
