import type { RateLine } from "../api/types";
import { formatMoney, formatRatio, type Quantity } from "../ui/units";

const NANO = 1_000_000_000n;
const NANO_MAX = 10n ** 15n;
export const USAGE_CLASSES = ["guaranteed", "borrowed", "unpaid"] as const;
export type PricedClass = (typeof USAGE_CLASSES)[number];

/** A typed price ("2.10") in nano-currency, exactly; null for a text that is no price. */
export function parsePrice(text: string): number | null {
  const match = /^(\d{1,7})(?:\.(\d{1,9}))?$/.exec(text.trim());
  if (match?.[1] === undefined) return null;
  const nano = BigInt(match[1]) * NANO + BigInt((match[2] ?? "").padEnd(9, "0"));
  return nano > NANO_MAX ? null : Number(nano);
}

/** A price with cents, or as many decimals as it has: "€2.10", "€0.000000005". */
export function formatPrice(nano: Quantity, currency: string): string {
  const exact = formatRatio(nano, NANO, 9, false).replace("≈", "");
  const cents = formatMoney(nano, currency);
  return (exact.split(".")[1] ?? "").length <= 2 ? cents : cents.replace(/[\d,.]+$/, exact);
}

/** A change in millionths: 50000 -> "+5 %". */
export function formatChange(ppm: number | null): string {
  if (ppm === null) return "–";
  const percent = formatRatio(ppm, 10_000n, 1, false);
  if (percent === "0") return "no change";
  return `${ppm > 0 ? "+" : ""}${percent} %`;
}

export type LineState = "past" | "current" | "scheduled";

export function stateOf(line: Pick<RateLine, "start" | "end">, nowMs: number): LineState {
  if (Date.parse(line.start) > nowMs) return "scheduled";
  return line.end !== null && Date.parse(line.end) <= nowMs ? "past" : "current";
}

/** The lines of each pool and class, by time, in the order of the card. */
export function series(lines: readonly RateLine[]): { key: string; pool: string; usageClass: PricedClass; lines: RateLine[] }[] {
  const found = new Map<string, RateLine[]>();
  for (const line of lines) {
    const key = `${line.pool} ${line.usage_class}`;
    found.set(key, [...(found.get(key) ?? []), line]);
  }
  return [...found].flatMap(([key, some]) => {
    const [first] = some;
    return first ? [{ key, pool: first.pool, usageClass: first.usage_class, lines: some }] : [];
  });
}

/** When the last scheduled change starts, or null. */
export function lastScheduled(lines: readonly RateLine[], nowMs: number): string | null {
  const starts = lines.filter((line) => stateOf(line, nowMs) === "scheduled").map(({ start }) => start);
  return starts.length === 0 ? null : starts.reduce((a, b) => (Date.parse(a) > Date.parse(b) ? a : b));
}
