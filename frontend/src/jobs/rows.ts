/** The loaded part of the list of jobs, and how pages that are read again become part of it. */
import { nextCursor } from "../api/client";
import type { Job } from "../api/types";

/** Jobs of a read. */
export const ROWS_READ = 100;
/** A part with more jobs than this is not made. */
const PART_MAX = 2 * ROWS_READ;
/** So many rows before the end the next page is read. */
const ROWS_AHEAD = 60;
/** What was read longer ago is read again where a reader stops at it. */
const STALE_MS = 5_000;

/** A page as the API answers. */
export interface JobsPage {
  items: readonly Job[];
  next: string | null;
}

/** Jobs that follow each other, after `cursor`; the first part has none. */
export interface Part {
  cursor: string | undefined;
  items: readonly Job[];
  /** When they were read. 0: what stood here was read at several times. */
  readAtMs: number;
}

/** Parts in the order of the list, and the cursor of what comes after them (null at the end). */
export interface JobRows {
  parts: readonly Part[];
  next: string | null;
}

export const NO_ROWS: JobRows = { parts: [], next: null };

/** The parts that have rows of this range, both ends counted from 0. */
export function partsAt({ parts }: JobRows, first: number, last: number): Part[] {
  let start = 0;
  return parts.filter(({ items }) => {
    const [from, to] = [start, start + items.length];
    start = to;
    return from <= last && (to > first || (from === first && to === first));
  });
}

/** Whether a reader of this row is so near to the end of the loaded rows that more should be there. */
export function needsMore({ parts, next }: JobRows, last: number): boolean {
  const count = parts.reduce((sum, { items }) => sum + items.length, 0);
  return next !== null && last >= count - ROWS_AHEAD;
}

/** Whether a part should be read again where a reader stops at it. */
export function isStale({ readAtMs }: Part, nowMs: number): boolean {
  return nowMs - readAtMs > STALE_MS;
}

/** The same rows after a change of any of them: each part is read again where a reader stops at it. */
export function outdated({ parts, next }: JobRows): JobRows {
  return { parts: parts.map((part) => ({ ...part, readAtMs: 0 })), next };
}

/** The list with one more page at its end. */
export function withNext(rows: JobRows, page: JobsPage, nowMs: number): JobRows {
  const part = { cursor: rows.next ?? undefined, items: page.items, readAtMs: nowMs };
  return { parts: [...withoutJobs(rows.parts, idsOf(page.items)), part], next: nextCursor(page.next) };
}

/**
 * The list after the part that begins at `cursor` was read again. No job is in it twice, and none between two
 * parts is missing: what new jobs pushed out of the part goes on to the next one.
 */
export function withPage(rows: JobRows, cursor: string | undefined, page: JobsPage, nowMs: number): JobRows {
  const at = rows.parts.findIndex((part) => part.cursor === cursor);
  const old = rows.parts[at];
  if (old === undefined) return rows;
  const [before, after] = [rows.parts.slice(0, at), rows.parts.slice(at + 1)];
  const later = idsOf(after.flatMap(({ items }) => items));
  const meeting = page.items.findIndex(({ id }) => later.has(id));
  const items = meeting < 0 ? page.items : page.items.slice(0, meeting);
  const fresh = idsOf(items);
  const next = nextCursor(page.next);
  const part = { cursor, items, readAtMs: nowMs };
  if (meeting < 0 && next === null) return { parts: [...withoutJobs(before, fresh), part], next };
  const rest = meeting < 0 ? pushedOut(old.items, items) : [];
  const isEnd = meeting < 0 && rest.length === 0 && after.length === 0;
  return {
    parts: [
      ...withoutJobs(before, fresh),
      ...(items.length === 0 && at > 0 ? [] : [part]),
      ...withoutJobs(rest.length === 0 || next === null ? after : pushedOn(rest, next, after), fresh),
    ],
    next: isEnd ? next : rows.next,
  };
}

/** What stood in a part and follows its new jobs. Nothing where these reach beyond it. */
function pushedOut(old: readonly Job[], items: readonly Job[]): readonly Job[] {
  const fresh = idsOf(items);
  const last = old.findLastIndex(({ id }) => fresh.has(id));
  const end = items.at(-1)?.id;
  return last >= 0 && !old.some(({ id }) => id === end) ? [] : old.slice(last + 1);
}

/** The parts after one from which `rest` was pushed out. They begin at `cursor` then. */
function pushedOn(rest: readonly Job[], cursor: string, after: readonly Part[]): readonly Part[] {
  const [following, ...others] = after;
  return following !== undefined && rest.length + following.items.length <= PART_MAX
    ? [{ cursor, items: [...rest, ...following.items], readAtMs: 0 }, ...others]
    : [{ cursor, items: rest, readAtMs: 0 }, ...after];
}

/** Parts less these jobs, which have moved. A part keeps its place without any. */
function withoutJobs(parts: readonly Part[], moved: ReadonlySet<string>): readonly Part[] {
  return parts.map((part) =>
    part.items.some(({ id }) => moved.has(id)) ? { ...part, items: part.items.filter(({ id }) => !moved.has(id)) } : part,
  );
}

function idsOf(jobs: readonly Job[]): ReadonlySet<string> {
  return new Set(jobs.map(({ id }) => id));
}
