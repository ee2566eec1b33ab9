/** What the address of the policy page carries. */
import { textParam, type RawSearch } from "../shell/search";

/** `name`: the priority class that is open. */
export interface PolicySearch {
  organization?: string;
  name?: string;
}

export const policySearch = (search: RawSearch): PolicySearch => ({
  organization: textParam(search, "organization"),
  name: textParam(search, "name"),
});
