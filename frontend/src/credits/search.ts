/** What the address of the credits page carries. */
import { textParam, type RawSearch } from "../shell/search";

/** `month` as "2026-11"; without it, the present one. */
export interface CreditsSearch {
  team?: string;
  pool?: string;
  month?: string;
}

export const creditsSearch = (search: RawSearch): CreditsSearch => ({
  team: textParam(search, "team"),
  pool: textParam(search, "pool"),
  month: /^20\d\d-(0[1-9]|1[0-2])$/.exec(textParam(search, "month") ?? "")?.[0],
});
