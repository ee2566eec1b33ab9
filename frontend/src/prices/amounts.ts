import type { PoolTerms, RateCard, RateLine } from "../api/types";
import { digitsOf, formatDuration, formatMoney, formatRatio, type Quantity } from "../ui/units";

const NANO = 1_000_000_000n;
const NANO_MAX = 10n ** 15n;
const PPM = 1_000_000;
export const USAGE_CLASSES = ["guaranteed", "borrowed", "unpaid"] as const;
export type PricedClass = (typeof USAGE_CLASSES)[number];

/** A typed price ("2.10") in nano-currency, exactly; null for a text that is no price. */
export function parsePrice(text: string): number | null {
  const match = /^(\d{1,7})(?:\.(\d{1,9}))?$/.exec(text.trim());
  if (match?.[1] === undefined) return null;
  const nano = BigInt(match[1]) * NANO + BigInt((match[2] ?? "").padEnd(9, "0"));
  return nano > NANO_MAX ? null : Number(nano);
}

/** A typed multiplier ("1.5") in millionths, at most 100; null for a text that is none. */
export function parseFactor(text: string): number | null {
  const match = /^(\d{1,3})(?:\.(\d{1,6}))?$/.exec(text.trim());
  if (match?.[1] === undefined) return null;
  const ppm = Number(match[1]) * PPM + Number((match[2] ?? "").padEnd(6, "0"));
  return ppm > 100 * PPM ? null : ppm;
}

/** A multiplier in millionths: "1.5", "0.3". */
export const formatFactor = (ppm: number): string => formatRatio(ppm, BigInt(PPM), 6, false);

/** A price with the decimals of its currency, or as many decimals as it has: "€2.10", "€0.000000005". */
export function formatPrice(nano: Quantity, currency: string): string {
  const exact = formatRatio(nano, NANO, 9, false).replace("≈", "");
  const money = formatMoney(nano, currency);
  return (exact.split(".")[1] ?? "").length <= digitsOf(currency) ? money : money.replace(/[\d,.]+$/, exact);
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

export type Mode = PoolTerms["mode"];
export const MODE_WORDS: Record<Mode, string> = {
  pay_per_use: "pay-per-use",
  commitment: "commitment",
  showback: "showback: not billed",
};

/** What the terms change beside the mode: "borrowed × 1.2 · at least 5 min an attempt". */
export function termsText(terms: PoolTerms): string {
  const factors = USAGE_CLASSES.map((name) => [name, terms[`${name}_ppm`]] as const)
    .filter(([, ppm]) => ppm !== PPM)
    .map(([name, ppm]) => `${name} × ${formatFactor(ppm)}`);
  const minimum = terms.minimum_s > 0 ? [`at least ${formatDuration(terms.minimum_s)} an attempt`] : [];
  const steps = terms.increment_s > 1 ? [`in steps of ${formatDuration(terms.increment_s)}`] : [];
  return [...factors, ...minimum, ...steps].join(" · ");
}

/** The terms that apply to a pool at a moment. */
export function termsAt(card: RateCard, pool: string, atMs: number): PoolTerms | undefined {
  return card.terms.find((terms) => terms.pool === pool && stateOf(terms, atMs) === "current");
}

/** When the last scheduled change starts, or null. */
export function lastScheduled(rules: readonly Pick<RateLine, "start" | "end">[], nowMs: number): string | null {
  const starts = rules.filter((rule) => stateOf(rule, nowMs) === "scheduled").map(({ start }) => start);
  return starts.length === 0 ? null : starts.reduce((a, b) => (Date.parse(a) > Date.parse(b) ? a : b));
}
