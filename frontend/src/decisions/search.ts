/** What the address of the decisions page carries. */
import { choiceParam, textParam, type RawSearch } from "../shell/search";

export const DECISION_KINDS = ["started", "claimed", "stopped", "claim_dropped"] as const;

export interface DecisionsSearch {
  view?: "cycles";
  decision?: (typeof DECISION_KINDS)[number];
  pool?: string;
  before?: string;
}

export const decisionsSearch = (search: RawSearch): DecisionsSearch => ({
  view: choiceParam(search, "view", ["cycles"] as const),
  decision: choiceParam(search, "decision", DECISION_KINDS),
  pool: textParam(search, "pool"),
  before: textParam(search, "before"),
});
