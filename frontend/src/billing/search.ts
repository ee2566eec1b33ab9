/** What the addresses of the chargeback pages carry. */
import { choiceParam, textParam, type RawSearch } from "../shell/search";

export const PERIODS = ["hour", "today", "yesterday", "last-7", "last-30", "month", "last-month", "custom"] as const;
export const DIMENSIONS = [
  "organization", "department", "team", "user", "pool", "cluster",
  "usage_class", "priority_class", "job_type", "cost_centre", "project_code", "hour", "day", "week", "month",
] as const;
export const USAGE_CLASSES = ["guaranteed", "borrowed", "unpaid", "fault", "commitment", "top_up"] as const;
export const SHARES = ["none", "by_guarantee", "by_usage"] as const;

export interface ChargebackSearch {
  period?: (typeof PERIODS)[number];
  start?: string;
  end?: string;
  pool?: string;
  by?: (typeof DIMENSIONS)[number];
  and?: (typeof DIMENSIONS)[number];
  user?: string;
  usage?: (typeof USAGE_CLASSES)[number];
  /** How idle time is shared out. */
  share?: (typeof SHARES)[number];
}

export const chargebackSearch = (search: RawSearch): ChargebackSearch => ({
  period: choiceParam(search, "period", PERIODS),
  start: textParam(search, "start"),
  end: textParam(search, "end"),
  pool: textParam(search, "pool"),
  by: choiceParam(search, "by", DIMENSIONS),
  and: choiceParam(search, "and", DIMENSIONS),
  user: textParam(search, "user"),
  usage: choiceParam(search, "usage", USAGE_CLASSES),
  share: choiceParam(search, "share", SHARES),
});

export interface ChargebackJobsSearch {
  start?: string;
  end?: string;
  as_of?: string;
  node?: string;
  pool?: string;
  usage?: (typeof USAGE_CLASSES)[number];
  user?: string;
  cluster?: string;
  priority?: string;
  type?: string;
  /** A code of accounting; "(none)" for teams without one. */
  centre?: string;
  project?: string;
}

export const chargebackJobsSearch = (search: RawSearch): ChargebackJobsSearch => ({
  start: textParam(search, "start"),
  end: textParam(search, "end"),
  as_of: textParam(search, "as_of"),
  node: textParam(search, "node"),
  pool: textParam(search, "pool"),
  usage: choiceParam(search, "usage", USAGE_CLASSES),
  user: textParam(search, "user"),
  cluster: textParam(search, "cluster"),
  priority: textParam(search, "priority"),
  type: textParam(search, "type"),
  centre: textParam(search, "centre"),
  project: textParam(search, "project"),
});

/** `month` as "2026-11"; `day` is the id of the comparison that is shown. */
export interface ReconciliationSearch {
  month?: string;
  day?: string;
}

export const reconciliationSearch = (search: RawSearch): ReconciliationSearch => ({
  month: /^20\d\d-(0[1-9]|1[0-2])$/.exec(textParam(search, "month") ?? "")?.[0],
  day: textParam(search, "day"),
});
