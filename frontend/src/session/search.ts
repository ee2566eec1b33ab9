/** What the address of the login carries. */
import { textParam, type RawSearch } from "../shell/search";

/** `next`: the address that was asked for. `refused`: why an identity provider's sign-in ended here. */
export interface LoginSearch {
  next: string | undefined;
  organization: string | undefined;
  refused: string | undefined;
}

export const loginSearch = (search: RawSearch): LoginSearch => ({
  next: textParam(search, "next"),
  organization: textParam(search, "organization"),
  refused: textParam(search, "refused"),
});
