/** Credits: millionths of a GPU-second of the reference GPU, as GPU-hours and as days of a guarantee. */
import type { CreditLine, CreditStatement, PoolCredits, TeamCredits } from "../api/types";
import { formatRatio, type Quantity } from "../ui/units";

const UGPU_S_PER_GPU_HOUR = 3_600_000_000n;
const DAY_S = 86_400;

/** With a sign where it is above 0: "+1.5", "\u22123.0", "0". */
function signed(value: Quantity, text: string): string {
  return value > 0 ? `+${text}` : text;
}

/** Reads GPU-hours with at most three decimals, as millionths of a GPU-second; null for anything else. */
export function parseHours(text: string): number | null {
  const [, whole, rest = ""] = /^(\d{1,9})(?:\.(\d{1,3}))?$/.exec(text.trim().replaceAll(",", "")) ?? [];
  if (whole === undefined) return null;
  const thousandths = BigInt(whole) * 1000n + BigInt(rest.padEnd(3, "0"));
  return Number((thousandths * UGPU_S_PER_GPU_HOUR) / 1000n);
}

/** Credits as GPU-hours with at most one decimal, without a plus; `isColumn` keeps a 0, so that columns line up. */
export function formatHours(ugpuS: Quantity, isColumn = false): string {
  return formatRatio(ugpuS, UGPU_S_PER_GPU_HOUR, 1, isColumn);
}

export function formatSignedHours(ugpuS: Quantity, isColumn = false): string {
  return signed(ugpuS, formatHours(ugpuS, isColumn));
}

/** Whole tenths of a day, as the API rounds them: 31 is "+3.1". A team without a guarantee has none. */
export function formatDays(team: TeamCredits): string {
  return team.guaranteed_mgpu === 0 ? "–" : signed(team.tenths, formatRatio(team.tenths, 10n, 1, true));
}

/** Days of the whole guarantee that an amount is worth, with at most one decimal; null without a guarantee. */
export function daysOfGuarantee(ugpuS: number, guaranteedMgpu: number, weight: number): string | null {
  const perDay = BigInt(guaranteedMgpu) * BigInt(weight) * BigInt(DAY_S);
  return perDay === 0n ? null : signed(ugpuS, formatRatio(ugpuS, perDay, 1, false));
}

/** Where a balance stands between floor (0) and cap (100), in percent; null where both are the same. */
export function placeOf(ugpuS: number, { floor_ugpu_s: floor, cap_ugpu_s: cap }: TeamCredits): number | null {
  return cap <= floor ? null : Math.min(100, Math.max(0, ((ugpuS - floor) / (cap - floor)) * 100));
}

/** Whether parts add up to a whole: "unknown" where a number is too large for the page to be exact. */
export type SumCheck = "equal" | "different" | "unknown";

function check(parts: readonly number[], whole: number): SumCheck {
  if (![...parts, whole].every(Number.isSafeInteger)) return "unknown";
  return parts.reduce((sum, part) => sum + BigInt(part), 0n) === BigInt(whole) ? "equal" : "different";
}

/** All balances with the common account: credits come from nowhere else. */
export function checkBalances(credits: PoolCredits): SumCheck {
  return check([...credits.teams.map((team) => team.balance_ugpu_s), credits.common_ugpu_s], 0);
}

export function checkStatement({ opening_ugpu_s, closing_ugpu_s, lines }: CreditStatement): SumCheck {
  return check([opening_ugpu_s, ...lines.map((line) => line.amount_ugpu_s)], closing_ugpu_s);
}

const sum = (lines: readonly CreditLine[]) => lines.reduce((total, line) => total + line.amount_ugpu_s, 0);

/**
 * What a month brought and took, each above 0: by lending, borrowing, dividends, expiry and transfers.
 * Reversals of earlier payments are `corrected`, above 0 where they brought credits back.
 */
export function totalsOf(lines: readonly CreditLine[]) {
  const isBorrowing = ({ kind, amount_ugpu_s }: CreditLine) =>
    amount_ugpu_s < 0 && ["lent", "common", "above_cap"].includes(kind);
  const transferred = lines.filter(({ kind }) => kind === "transferred");
  const lent = lines.filter(({ kind, amount_ugpu_s }) => kind === "lent" && amount_ugpu_s > 0);
  const earnedFrom = new Map<string, number>();
  for (const { other, amount_ugpu_s } of lent) earnedFrom.set(other, (earnedFrom.get(other) ?? 0) + amount_ugpu_s);
  return {
    earned: sum(lent),
    earnedFrom: [...earnedFrom].sort(([, a], [, b]) => b - a),
    paid: -sum(lines.filter(isBorrowing)),
    dividend: sum(lines.filter(({ kind }) => kind === "dividend")),
    corrected: sum(lines.filter(({ kind }) => kind === "correction" || kind === "refund")),
    expired: -sum(lines.filter(({ kind }) => kind === "expired")),
    received: sum(transferred.filter((line) => line.amount_ugpu_s > 0)),
    given: -sum(transferred.filter((line) => line.amount_ugpu_s < 0)),
  };
}

/** What moved the credits of a line. */
export function entryOf({ kind, other, amount_ugpu_s: amount }: CreditLine, words: string): string {
  switch (kind) {
    case "lent":
      return amount > 0 ? `lent to ${slugOf(other)}` : `paid for borrowing from ${slugOf(other)}`;
    case "common":
      return `paid for borrowed ${words} that nobody is guaranteed`;
    case "above_cap":
      return `paid for borrowed ${words} of teams at their cap`;
    case "expired":
      return "expired";
    case "dividend":
      return "dividend from the common account";
    case "transferred":
      return `transferred ${amount > 0 ? "from" : "to"} ${slugOf(other)}`;
    case "correction":
    case "refund":
      return `${kind} ${amount > 0 ? "from" : "to"} ${other === "" ? "the common account" : slugOf(other)}`;
  }
}

/** The end of a path that tells a node from those around it. */
export function slugOf(path: string): string {
  return path.split("/").at(-1) ?? path;
}
