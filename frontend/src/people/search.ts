/** What the address of the people page carries. */
import { textParam, type RawSearch } from "../shell/search";

/** `user`: whose tokens are shown, by login. */
export interface PeopleSearch {
  user?: string;
}

export const peopleSearch = (search: RawSearch): PeopleSearch => ({ user: textParam(search, "user") });
