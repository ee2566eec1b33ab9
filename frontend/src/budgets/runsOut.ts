import type { Budget } from "../api/types";

/**
 * When a budget is used up if its use goes on as the forecast has it, in milliseconds since 1970. Null where it
 * lasts until the end of its window, and without a forecast.
 */
export function runsOutAtMs({ limit, state }: Pick<Budget, "limit" | "state">): number | null {
  const { used, forecast, as_of: asOf, window_end: end } = state;
  if (forecast === null || forecast <= limit || used >= limit) return null;
  const fromMs = Date.parse(asOf);
  return fromMs + ((limit - used) / (forecast - used)) * (Date.parse(end) - fromMs);
}
