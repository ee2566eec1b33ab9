/** What the address of the submission page carries. */
import { choiceParam, textParam, type RawSearch } from "../shell/search";

export const SUBMIT_DOORS = ["form", "sbatch", "yaml"] as const;

/** `from`: the job that the form begins with. `instead`: what is changed of it. `template`: the id of one. */
export interface SubmitSearch {
  door?: (typeof SUBMIT_DOORS)[number];
  from?: string;
  instead?: string;
  template?: string;
}

export const submitSearch = (search: RawSearch): SubmitSearch => ({
  door: choiceParam(search, "door", SUBMIT_DOORS),
  from: textParam(search, "from"),
  instead: textParam(search, "instead"),
  template: textParam(search, "template"),
});
