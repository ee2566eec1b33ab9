/** What the address of the login carries. */
import { textParam, type RawSearch } from "../shell/search";

/** `next`: the address that was asked for. */
export interface LoginSearch {
  next: string | undefined;
}

export const loginSearch = (search: RawSearch): LoginSearch => ({ next: textParam(search, "next") });
