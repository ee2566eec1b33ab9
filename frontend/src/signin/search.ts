/** What the address of the sign-in settings carries. */
import { textParam, type RawSearch } from "../shell/search";

/** `organization`: the slug of the one that is set up. */
export interface SignInSearch {
  organization: string | undefined;
}

export const signInSearch = (search: RawSearch): SignInSearch => ({ organization: textParam(search, "organization") });
