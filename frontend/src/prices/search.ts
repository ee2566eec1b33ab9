/** What the address of the page Prices carries: the two moments that it compares. */
import { textParam, type RawSearch } from "../shell/search";

export interface PricesSearch {
  first?: string;
  second?: string;
}

export const pricesSearch = (search: RawSearch): PricesSearch => ({
  first: textParam(search, "first"),
  second: textParam(search, "second"),
});
