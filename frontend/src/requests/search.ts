/** Parameters in the address of the requests. */
import type { AskedKind } from "../api/types";
import { choiceParam, textParam, timeParam, type RawSearch } from "../shell/search";

export const VIEWS = ["to_decide", "mine", "decided", "all"] as const;
const STATUSES = ["pending", "countered", "approved", "rejected", "withdrawn", "expired"] as const;
export type RequestView = (typeof VIEWS)[number];
export const KINDS: readonly AskedKind[] = ["guarantee", "borrow_limit", "loan", "budget", "class_cap", "role"];

export interface RequestsSearch {
  view?: RequestView;
  /** Only requests with this status, and those that were decided from `since` until before `until`. */
  status?: (typeof STATUSES)[number];
  since?: string;
  until?: string;
  /** The id of the request that is open. */
  request?: string;
  /** The kind of a new request: its form is open, filled from the members below. */
  ask?: AskedKind;
  node?: string;
  pool?: string;
  gpus?: string;
  lender?: string;
  target?: string;
}

export const requestsSearch = (search: RawSearch): RequestsSearch => ({
  view: choiceParam(search, "view", VIEWS),
  status: choiceParam(search, "status", STATUSES),
  since: timeParam(search, "since"),
  until: timeParam(search, "until"),
  request: textParam(search, "request"),
  ask: choiceParam(search, "ask", KINDS),
  node: textParam(search, "node"),
  pool: textParam(search, "pool"),
  gpus: textParam(search, "gpus"),
  lender: textParam(search, "lender"),
  target: textParam(search, "target"),
});
