/** What the addresses of a node's tabs carry. */
import { textParam, type RawSearch } from "../shell/search";

export interface MembersSearch {
  pool?: string;
}

export const membersSearch = (search: RawSearch): MembersSearch => ({ pool: textParam(search, "pool") });
