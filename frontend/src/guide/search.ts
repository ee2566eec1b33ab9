/** Parameters in the address of the guide. */
import { textParam, type RawSearch } from "../shell/search";

export interface GuideSearch {
  q?: string;
}

export const guideSearch = (search: RawSearch): GuideSearch => ({ q: textParam(search, "q") });
