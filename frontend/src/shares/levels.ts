import { formatRatio } from "../ui/units";

/** A level value of fair-share: 607 is "0.61", and null is "no use". */
export function levelText(permille: number | null): string {
  return permille === null ? "no use" : formatRatio(permille, 1000n, 2, true);
}

/** A part in thousandths, in percent: 823 is "82.3 %". */
export function percentOf(permille: number): string {
  return `${formatRatio(permille, 10n, 1, false)} %`;
}
