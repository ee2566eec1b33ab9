/** Billing periods are whole hours and days in UTC, half-open: [start, end). */

export type PeriodName = "hour" | "today" | "yesterday" | "last-7" | "last-30" | "month" | "last-month" | "custom";

export interface Period {
  start: string;
  end: string;
  label: string;
}

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const MONTHS = [
  "January", "February", "March", "April", "May", "June",
  "July", "August", "September", "October", "November", "December",
];

export const PERIOD_LABELS: readonly (readonly [PeriodName, string])[] = [
  ["hour", "This hour"],
  ["today", "Today"],
  ["yesterday", "Yesterday"],
  ["last-7", "Last 7 days"],
  ["last-30", "Last 30 days"],
  ["month", "This month"],
  ["last-month", "Last month"],
  ["custom", "From – to"],
];

/** "2026-11-21T14:00:00Z", without fractions of a second. */
export function toIso(ms: number): string {
  return new Date(ms).toISOString().replace(/\.\d{3}Z$/, "Z");
}

function monthPeriod(year: number, month: number): Period {
  const start = Date.UTC(year, month, 1);
  const first = new Date(start);
  return {
    start: toIso(start),
    end: toIso(Date.UTC(year, month + 1, 1)),
    label: `${MONTHS[first.getUTCMonth()] ?? ""} ${first.getUTCFullYear()}`,
  };
}

/** The month, in UTC, that `nowMs` lies in. */
export function thisMonth(nowMs: number): Period {
  const now = new Date(nowMs);
  return monthPeriod(now.getUTCFullYear(), now.getUTCMonth());
}

function dayLabel(ms: number): string {
  const day = new Date(ms);
  return `${day.getUTCDate()} ${MONTHS[day.getUTCMonth()] ?? ""} ${day.getUTCFullYear()}`;
}

/** The period that a name means at `nowMs`; null for a custom one that is not valid. */
export function resolvePeriod(
  name: PeriodName,
  nowMs: number,
  custom: { start?: string | undefined; end?: string | undefined } = {},
): Period | null {
  const now = new Date(nowMs);
  const today = Date.UTC(now.getUTCFullYear(), now.getUTCMonth(), now.getUTCDate());
  switch (name) {
    case "hour": {
      const start = Math.floor(nowMs / HOUR_MS) * HOUR_MS;
      const hour = String(new Date(start).getUTCHours()).padStart(2, "0");
      return { start: toIso(start), end: toIso(start + HOUR_MS), label: `${dayLabel(start)}, ${hour}:00 UTC` };
    }
    case "today":
      return { start: toIso(today), end: toIso(today + DAY_MS), label: dayLabel(today) };
    case "yesterday":
      return { start: toIso(today - DAY_MS), end: toIso(today), label: dayLabel(today - DAY_MS) };
    case "last-7":
    case "last-30": {
      const start = today - (name === "last-7" ? 7 : 30) * DAY_MS;
      return { start: toIso(start), end: toIso(today), label: customLabel(start, today) };
    }
    case "month":
      return thisMonth(nowMs);
    case "last-month":
      return monthPeriod(now.getUTCFullYear(), now.getUTCMonth() - 1);
    case "custom": {
      const start = Date.parse(custom.start ?? "");
      const end = Date.parse(custom.end ?? "");
      if (Number.isNaN(start) || Number.isNaN(end) || end <= start) return null;
      return { start: toIso(start), end: toIso(end), label: customLabel(start, end) };
    }
  }
}

function customLabel(start: number, end: number): string {
  const isWholeDays = start % DAY_MS === 0 && end % DAY_MS === 0;
  if (isWholeDays) {
    return end - start === DAY_MS ? dayLabel(start) : `${dayLabel(start)} – ${dayLabel(end - DAY_MS)}`;
  }
  const clock = (ms: number) => new Date(ms).toISOString().slice(11, 16);
  return `${dayLabel(start)} ${clock(start)} – ${dayLabel(end)} ${clock(end)} UTC`;
}

/** The period as days where it is of whole ones: "2026-11-01" is a midnight of the organization's time zone. */
export function asDays({ start, end }: Pick<Period, "start" | "end">): { start: string; end: string } {
  const day = (iso: string) => /^(.{10})T00:00:00Z$/.exec(iso)?.[1];
  const [first, last] = [day(start), day(end)];
  return first !== undefined && last !== undefined ? { start: first, end: last } : { start, end };
}
