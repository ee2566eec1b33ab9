/** Parameters in the address of a node's history. */
import { choiceParam, textParam, type RawSearch } from "../shell/search";

export const RANGES = ["day", "week", "month", "quarter", "year"] as const;
export type Range = (typeof RANGES)[number];

/** `from` and `to` are days of the organization's zone, or times; both together replace the range. */
export interface HistorySearch {
  pool?: string;
  range?: Range;
  from?: string;
  to?: string;
}

export const historySearch = (search: RawSearch): HistorySearch => ({
  pool: textParam(search, "pool"),
  range: choiceParam(search, "range", RANGES),
  from: momentParam(search, "from"),
  to: momentParam(search, "to"),
});

/** A day, or a time in whole seconds, as the API takes it. */
function momentParam(search: RawSearch, key: string): string | undefined {
  return /^\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}:\d{2}Z)?$/.exec(textParam(search, key) ?? "")?.[0];
}
