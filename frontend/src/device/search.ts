/** What the address of the page for logins of machines carries. */
import { textParam, type RawSearch } from "../shell/search";

/** `code`: the code of the login, as the terminal shows it. */
export interface DeviceSearch {
  code?: string;
}

export const deviceSearch = (search: RawSearch): DeviceSearch => ({ code: textParam(search, "code") });
