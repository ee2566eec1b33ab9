/** What the address of the page Periods carries. */
import { textParam, type RawSearch } from "../shell/search";

/** `month` as "2026-11"; without it, the oldest one that is not closed. */
export interface PeriodsSearch {
  organization?: string;
  month?: string;
}

export const periodsSearch = (search: RawSearch): PeriodsSearch => ({
  organization: textParam(search, "organization"),
  month: /^20\d\d-(0[1-9]|1[0-2])$/.exec(textParam(search, "month") ?? "")?.[0],
});
