/** The parameters in the addresses of the pages *Fair share* and *Capacity*. */
import { textParam, type RawSearch } from "../shell/search";

export interface SharesSearch {
  node?: string;
  pool?: string;
}

export const sharesSearch = (search: RawSearch): SharesSearch => ({
  node: textParam(search, "node"),
  pool: textParam(search, "pool"),
});
