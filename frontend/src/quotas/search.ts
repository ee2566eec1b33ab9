/** What the address of the quota tree carries. */
import { textParam, type RawSearch } from "../shell/search";

export interface QuotasSearch {
  pool?: string;
  node?: string;
}

export const quotasSearch = (search: RawSearch): QuotasSearch => ({
  pool: textParam(search, "pool"),
  node: textParam(search, "node"),
});
