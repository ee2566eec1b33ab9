const CENTS_PER_UNIT = 100n;
const NANO_PER_CENT = 10_000_000n;
/** A billion of the currency. Amounts of whole cents up to it are exact as JSON numbers. */
const CENTS_MAX = 1_000_000_000n * CENTS_PER_UNIT;

/** A typed amount in nano-currency, or the sentence that says what is wrong with it. */
export function readAmount(text: string): number | string {
  const match = /^(\d{1,15})(?:\.(\d{1,2}))?$/.exec(text.trim());
  if (match?.[1] === undefined) return "Give a number such as 250 or 12.50.";
  const cents = BigInt(match[1]) * CENTS_PER_UNIT + BigInt((match[2] ?? "").padEnd(2, "0"));
  return cents > CENTS_MAX ? "Give at most 1000000000." : Number(cents * NANO_PER_CENT);
}

/** What is wrong with a typed amount above 0; null if nothing is. */
export function faultOf(text: string): string | null {
  const read = readAmount(text);
  if (typeof read === "string") return read;
  return read === 0 ? "Give an amount above 0." : null;
}
