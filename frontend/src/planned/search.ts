/** What the addresses of planned changes carry. */
import type { PlannedStatus } from "../api/types";
import { choiceParam, textParam, type RawSearch } from "../shell/search";

export const PLANNED_STATUSES: readonly PlannedStatus[] = [
  "draft",
  "scheduled",
  "applied",
  "reverted",
  "kept",
  "cancelled",
  "expired",
  "failed",
];

export interface PlannedChangesSearch {
  status?: PlannedStatus;
}

export const plannedChangesSearch = (search: RawSearch): PlannedChangesSearch => ({
  status: choiceParam(search, "status", PLANNED_STATUSES),
});

/** `from`: the planned change whose figures the new draft begins with. */
export interface DraftSearch {
  pool?: string;
  from?: string;
}

export const draftSearch = (search: RawSearch): DraftSearch => ({
  pool: textParam(search, "pool"),
  from: textParam(search, "from"),
});

export interface PlannedChangeSearch {
  preview?: "now";
}

export const plannedChangeSearch = (search: RawSearch): PlannedChangeSearch => ({
  preview: choiceParam(search, "preview", ["now"] as const),
});
