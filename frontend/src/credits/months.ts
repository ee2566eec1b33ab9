/** Months and days as the API writes them: "2026-11", "2026-11-25". */

const CHOICES = 12;
const MONTH = new Intl.DateTimeFormat("en-GB", { month: "long", year: "numeric", timeZone: "UTC" });
const DAY = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", timeZone: "UTC" });

/** "2026-11" -> "November 2026". */
export function monthLabel(month: string): string {
  return MONTH.format(new Date(`${month}-01T00:00:00Z`));
}

/** "2026-11-25" -> "25 Nov". */
export function dayLabel(day: string): string {
  return DAY.format(new Date(`${day}T00:00:00Z`));
}

/** The month that holds the middle of an interval: its ends lie in the neighbours of other time zones. */
export function monthOf({ start, end }: { start: string; end: string }): string {
  return new Date((Date.parse(start) + Date.parse(end)) / 2).toISOString().slice(0, 7);
}

/** The last 12 months up to `latest`, and `chosen`; newest first. */
export function monthChoices(latest: string, chosen: string): string[] {
  const [year = 2000, month = 1] = latest.split("-").map(Number);
  const recent = Array.from({ length: CHOICES }, (_, back) =>
    new Date(Date.UTC(year, month - 1 - back, 1)).toISOString().slice(0, 7),
  );
  return [...new Set([chosen, ...recent])].sort().reverse();
}
