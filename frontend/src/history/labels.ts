import { dayOf } from "../prices/zone";

/** Within two days labels are times, beyond them days. */
const TIMES_MAX = 49;

/** "Mon 26 Oct", or "14:00" where a chart has `count` steps within two days, in the organization's zone. */
export function stepLabel(iso: string, zone: string, step: string, count = Infinity): string {
  const options: Intl.DateTimeFormatOptions =
    step === "5m" || (step === "hour" && count <= TIMES_MAX)
      ? { hour: "2-digit", minute: "2-digit", hourCycle: "h23" }
      : { day: "numeric", month: "short", ...(step === "hour" ? { weekday: "short" } : {}) };
  return new Intl.DateTimeFormat("en-GB", { timeZone: zone, ...options }).format(Date.parse(iso)).replace(",", "");
}

/** The whole name of a step, as in the table: "Mon 26 Oct 2026, 14:00". */
export function stepName(iso: string, zone: string, step: string): string {
  const time: Intl.DateTimeFormatOptions = step === "day" ? {} : { hour: "2-digit", minute: "2-digit", hourCycle: "h23" };
  return new Intl.DateTimeFormat("en-GB", {
    timeZone: zone,
    weekday: "short",
    day: "numeric",
    month: "short",
    year: "numeric",
    ...time,
  }).format(Date.parse(iso));
}

/** Steps with a label at the axis: at most `most`, at the start of days where steps are hours. */
export function labelled(starts: readonly string[], zone: string, step: string, most: number): Set<number> {
  const all = starts.map((_, at) => at);
  const dayStarts = all.filter((at) => at === 0 || dayOf(starts[at] ?? "", zone) !== dayOf(starts[at - 1] ?? "", zone));
  const candidates = step === "hour" && dayStarts.length > 2 ? dayStarts : all;
  const every = Math.ceil(candidates.length / most);
  return new Set(candidates.filter((_, place) => place % every === 0));
}
