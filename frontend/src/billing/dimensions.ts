import type { Dimension } from "./groupQueries";

export const TIMES: readonly Dimension[] = ["hour", "day", "week", "month"];

export function dimensionWords(dimension: Dimension): string {
  return dimension.replace("_", " ");
}

export function isTime(dimension: Dimension | undefined): boolean {
  return dimension !== undefined && TIMES.includes(dimension);
}

/** Groupings of jobs, which commitments lack. */
export function isOfJobs(dimension: Dimension): boolean {
  return dimension === "user" || dimension === "cluster" || dimension === "priority_class" || dimension === "job_type";
}

/** The cost centre and the project code of teams without one. */
export const UNCODED = "(none)";
