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

/** Groupings by the codes of accounting. */
export function isCode(dimension: Dimension): boolean {
  return dimension === "cost_centre" || dimension === "project_code";
}
