/** What the addresses of the job pages carry. */
import type { JobFilter } from "../api/types";
import { choiceParam, numberParam, textParam, timeParam, type RawSearch } from "../shell/search";
import { parseStates } from "./words";

export const JOB_TABS = ["log", "files", "timeline", "reasons", "decisions", "attempts", "metrics", "script"] as const;
export const LOG_VIEWS = ["merged", "stdout", "stderr"] as const;
export const JOB_TYPES = ["training", "distributed", "interactive", "inference", "array"] as const;
export const USAGE_CLASSES = ["guaranteed", "borrowed"] as const;
/** Columns by which the server orders the list. */
export const SORT_KEYS = ["submitted_at", "started_at", "ended_at", "gpus", "name", "state", "team", "user"] as const;
export type SortKey = (typeof SORT_KEYS)[number];
export type JobSort = NonNullable<JobFilter["sort"]>;
export const NEWEST_FIRST: JobSort = "-submitted_at";
const SORTS: readonly JobSort[] = SORT_KEYS.flatMap((key): JobSort[] => [key, `-${key}`]);

/** Columns of the list besides the name, in their order. */
export const JOB_COLUMNS = [
  "state",
  "team",
  "user",
  "class",
  "type",
  "gpus",
  "pool",
  "cluster",
  "native_id",
  "attempt",
  "submitted_at",
  "started_at",
  "ended_at",
] as const;
export type JobColumn = (typeof JOB_COLUMNS)[number];
export const DEFAULT_COLUMNS: readonly JobColumn[] = [
  "state",
  "team",
  "user",
  "class",
  "gpus",
  "pool",
  "attempt",
  "submitted_at",
];

export interface JobsSearch {
  state?: string;
  user?: string;
  pool?: string;
  cluster?: string;
  class?: string;
  type?: (typeof JOB_TYPES)[number];
  runs_as?: (typeof USAGE_CLASSES)[number];
  q?: string;
  since?: string;
  until?: string;
  ended_since?: string;
  ended_until?: string;
  array?: string;
  schedule?: string;
  sort?: JobSort;
  columns?: string;
}

export const jobsSearch = (search: RawSearch): JobsSearch => ({
  state: textParam(search, "state"),
  user: textParam(search, "user"),
  pool: textParam(search, "pool"),
  cluster: textParam(search, "cluster"),
  class: textParam(search, "class"),
  type: choiceParam(search, "type", JOB_TYPES),
  runs_as: choiceParam(search, "runs_as", USAGE_CLASSES),
  q: textParam(search, "q"),
  since: timeParam(search, "since"),
  until: timeParam(search, "until"),
  ended_since: timeParam(search, "ended_since"),
  ended_until: timeParam(search, "ended_until"),
  array: textParam(search, "array"),
  schedule: textParam(search, "schedule"),
  sort: choiceParam(search, "sort", SORTS),
  columns: textParam(search, "columns"),
});

/** The filter of an address as the API takes it; members that are not set are left out. */
export function apiFilter(search: JobsSearch & { scope?: string }): Omit<JobFilter, "sort"> {
  const states = parseStates(search.state);
  const filter = {
    state: states.length > 0 ? states : undefined,
    team: search.scope,
    user: search.user,
    pool: search.pool,
    cluster: search.cluster,
    priority_class: search.class,
    type: search.type,
    usage_class: search.runs_as,
    q: search.q,
    submitted_at__gte: search.since,
    submitted_at__lt: search.until,
    ended_at__gte: search.ended_since,
    ended_at__lt: search.ended_until,
    array: search.array,
    schedule: search.schedule,
  } satisfies JobFilter;
  return Object.fromEntries(Object.entries(filter).filter(([, value]) => value !== undefined));
}

/** The columns that an address names, in the order of the table; without any the usual ones. */
export function columnsOf({ columns }: Pick<JobsSearch, "columns">): readonly JobColumn[] {
  const named = new Set(columns?.split(","));
  const chosen = JOB_COLUMNS.filter((column) => named.has(column));
  return chosen.length > 0 ? chosen : DEFAULT_COLUMNS;
}

/** The order after a click on a head: ascending, then descending; times and amounts the largest first. */
export function nextSort(current: JobSort, key: SortKey): JobSort {
  const isLargestFirst = key.endsWith("_at") || key === "gpus";
  const [first, second]: [JobSort, JobSort] = isLargestFirst ? [`-${key}`, key] : [key, `-${key}`];
  return current === first ? second : first;
}

const CSV_COLUMNS: Record<JobColumn, readonly string[]> = {
  state: ["state"],
  team: ["team"],
  user: ["user"],
  class: ["priority_class"],
  type: ["type"],
  gpus: ["device", "gpus"],
  pool: ["pool"],
  cluster: ["cluster"],
  native_id: ["native_id"],
  attempt: ["attempt"],
  submitted_at: ["submitted_at"],
  started_at: ["started_at"],
  ended_at: ["ended_at"],
};

/** Where the list is downloaded, with its filters, its order and its columns. */
export function csvAddress(search: JobsSearch & { scope?: string }): string {
  const columns = ["id", "name", ...columnsOf(search).flatMap((column) => CSV_COLUMNS[column])];
  const given = { format: "csv", ...apiFilter(search), sort: search.sort ?? NEWEST_FIRST, columns };
  const query = Object.entries(given).map(([name, value]): [string, string] => [name, String(value)]);
  return `/api/v1/jobs?${new URLSearchParams(query).toString()}`;
}

/** The command that prints the same list. */
export function listCommand(search: JobsSearch & { scope?: string }): string {
  const options = {
    team: search.scope,
    state: search.state,
    user: search.user,
    pool: search.pool,
    cluster: search.cluster,
    class: search.class,
    type: search.type,
    "usage-class": search.runs_as,
    search: search.q,
    since: search.since,
    until: search.until,
    "ended-since": search.ended_since,
    "ended-until": search.ended_until,
    array: search.array,
    schedule: search.schedule,
    sort: search.sort,
  };
  const words = Object.entries(options).flatMap(([name, value]) =>
    value === undefined ? [] : [`--${name} ${/^[\w./:,=@-]+$/.test(value) ? value : `'${value.replaceAll("'", String.raw`'\''`)}'`}`],
  );
  return ["tidegate ls", ...words].join(" ");
}

export interface JobSearch {
  tab?: (typeof JOB_TABS)[number];
  attempt?: number;
  rank?: number;
  /** More ranks of the log, side by side with `rank`: "1,2". */
  beside?: string;
  stream?: (typeof LOG_VIEWS)[number];
}

export const jobSearch = (search: RawSearch): JobSearch => ({
  tab: choiceParam(search, "tab", JOB_TABS),
  attempt: numberParam(search, "attempt", 1_000_000),
  rank: numberParam(search, "rank", 1_000_000),
  beside: textParam(search, "beside"),
  stream: choiceParam(search, "stream", LOG_VIEWS),
});

/** The ranks that an address names beside the first. */
export function besideOf({ beside }: Pick<JobSearch, "beside">): readonly number[] {
  const named = (beside ?? "").split(",").filter((word) => /^\d{1,6}$/.test(word));
  return [...new Set(named.map(Number))];
}
