/** Days of an organization's time zone, which need not be the reader's. */

function offsetMs(at: number, zone: string): number {
  const parts = new Intl.DateTimeFormat("en-GB", {
    timeZone: zone,
    hourCycle: "h23",
    year: "numeric",
    month: "numeric",
    day: "numeric",
    hour: "numeric",
    minute: "numeric",
    second: "numeric",
  }).formatToParts(at);
  const [year = 0, month = 1, day = 1, hour = 0, minute = 0, second = 0] = (
    ["year", "month", "day", "hour", "minute", "second"] as const
  ).map((type) => Number(parts.find((part) => part.type === type)?.value));
  return Date.UTC(year, month - 1, day, hour, minute, second) - Math.floor(at / 1000) * 1000;
}

const toIso = (ms: number) => new Date(ms).toISOString().replace(/\.\d+Z$/, "Z");

/** The day of a moment in the zone: "2026-12-01". */
export function dayOf(iso: string, zone: string): string {
  const at = Date.parse(iso);
  return new Date(at + offsetMs(at, zone)).toISOString().slice(0, 10);
}

/** The start of a day ("2026-12-01") in the zone, in UTC; null for a text that is no day. */
export function startOfDay(day: string, zone: string): string | null {
  const wall = Date.parse(`${day}T00:00:00Z`);
  if (!/^\d{4}-\d{2}-\d{2}$/.test(day) || Number.isNaN(wall)) return null;
  const early = wall - offsetMs(wall, zone);
  const exact = wall - offsetMs(early, zone);
  // A zone may skip midnight: its day then starts an hour later.
  return toIso(dayOf(toIso(exact), zone) === day ? exact : early);
}

/** A moment in the zone for people: "1 Dec 2026", with the time where that is not midnight. */
export function formatInZone(iso: string, zone: string): string {
  const at = Date.parse(iso);
  const day: Intl.DateTimeFormatOptions = { timeZone: zone, day: "numeric", month: "short", year: "numeric" };
  const isMidnight = (at + offsetMs(at, zone)) % 86_400_000 === 0;
  const time: Intl.DateTimeFormatOptions = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" };
  return new Intl.DateTimeFormat("en-GB", isMidnight ? day : { ...day, ...time }).format(at);
}
