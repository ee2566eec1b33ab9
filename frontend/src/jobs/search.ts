/** What the addresses of the job pages carry. */
import { choiceParam, numberParam, textParam, type RawSearch } from "../shell/search";

export const JOB_TABS = ["log", "timeline", "reasons", "decisions", "attempts", "script"] as const;
export const LOG_VIEWS = ["merged", "stdout", "stderr"] as const;

export interface JobsSearch {
  state?: string;
  user?: string;
  pool?: string;
  q?: string;
  array?: string;
  cursor?: string;
}

export const jobsSearch = (search: RawSearch): JobsSearch => ({
  state: textParam(search, "state"),
  user: textParam(search, "user"),
  pool: textParam(search, "pool"),
  q: textParam(search, "q"),
  array: textParam(search, "array"),
  cursor: textParam(search, "cursor"),
});

export interface JobSearch {
  tab?: (typeof JOB_TABS)[number];
  attempt?: number;
  rank?: number;
  stream?: (typeof LOG_VIEWS)[number];
}

export const jobSearch = (search: RawSearch): JobSearch => ({
  tab: choiceParam(search, "tab", JOB_TABS),
  attempt: numberParam(search, "attempt", 1_000_000),
  rank: numberParam(search, "rank", 1_000_000),
  stream: choiceParam(search, "stream", LOG_VIEWS),
});
