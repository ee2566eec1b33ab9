/**
 * Quantities as people read them.
 *
 * The API speaks integers: milli-GPU (1000 = one GPU), milli-GPU-seconds, whole seconds and
 * nano-currency. Everything here divides with BigInt, so no sum ever shows a float's error.
 * An integer too large for a JSON number to carry exactly is marked with "≈".
 */

const MGPU_PER_GPU = 1000n;
const MGPU_S_PER_GPU_HOUR = 3_600_000n;
const NANO = 1_000_000_000n;
/** Real minus sign, as wide as a digit, so that columns line up. */
const MINUS = "\u2212";

export type Quantity = number | bigint;

function toBigInt(value: Quantity): { value: bigint; isExact: boolean } {
  if (typeof value === "bigint") return { value, isExact: true };
  if (!Number.isFinite(value)) throw new RangeError(`not a quantity: ${value}`);
  return { value: BigInt(Math.trunc(value)), isExact: Number.isSafeInteger(value) };
}

function group(digits: string): string {
  return digits.replace(/\B(?=(?:\d{3})+$)/g, ",");
}

/**
 * `value / unit` with at most `digits` decimals, rounded half away from zero.
 * `keepZeros` pads the decimals, for columns that must line up.
 */
export function formatRatio(value: Quantity, unit: bigint, digits: number, keepZeros: boolean): string {
  const { value: exact, isExact } = toBigInt(value);
  const scale = 10n ** BigInt(digits);
  const isNegative = exact < 0n;
  const magnitude = isNegative ? -exact : exact;
  const scaled = (magnitude * scale * 2n + unit) / (unit * 2n);
  const whole = group((scaled / scale).toString());
  let decimals = digits === 0 ? "" : (scaled % scale).toString().padStart(digits, "0");
  if (!keepZeros) decimals = decimals.replace(/0+$/, "");
  const sign = isNegative && scaled !== 0n ? MINUS : "";
  return `${isExact ? "" : "≈"}${sign}${whole}${decimals === "" ? "" : `.${decimals}`}`;
}

/** A number of things: 1234 -> "1,234". */
export function formatCount(count: Quantity): string {
  return formatRatio(count, 1n, 0, false);
}

/** Milli-GPU as GPUs: 1000 -> "1", 500 -> "0.5", 1000000 -> "1,000". */
export function formatGpus(mgpu: Quantity): string {
  return formatRatio(mgpu, MGPU_PER_GPU, 3, false);
}

/** What the devices of a pool are called, several of them. */
export const DEVICE_WORDS = { gpu: "GPUs", cpu: "cores" } as const;

export type Device = keyof typeof DEVICE_WORDS;

/** In the order in which they are told. */
export const DEVICES: readonly Device[] = ["gpu", "cpu"];

/** Words that speak of GPUs, of such devices. */
export function inWordsOf(device: Device, words: string): string {
  return words.replaceAll("GPUs", DEVICE_WORDS[device]);
}

/** The same as the head of a column, or before a figure. */
export const DEVICE_HEADS = { gpu: "GPUs", cpu: "Cores" } as const;

/** "core-hours" at the head of a column: "Core-hours". */
export function capitalised(words: string): string {
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** The time that devices were held: "GPU-hours", "core-h". */
export function deviceTime(device: Device, unit: "hours" | "h" | "seconds" | "s"): string {
  return `${DEVICE_WORDS[device].slice(0, -1)}-${unit}`;
}

/**
 * What the heads of a table say: cores where all its rows are of cores, else GPUs. Where rows are of both,
 * those of cores say so in their cells. What is of both is never added up.
 */
export function headOf(rows: readonly { device: Device }[]): Device {
  return rows.length > 0 && rows.every(({ device }) => device === "cpu") ? "cpu" : "gpu";
}

/** What rows are of, at the head of a card: "GPUs", "Cores", "GPUs and cores". */
export function devicesIn(rows: readonly { device: Device }[]): string {
  const kinds = DEVICES.filter((kind) => rows.some(({ device }) => device === kind));
  return kinds.length > 1 ? kinds.map((kind) => DEVICE_WORDS[kind]).join(" and ") : DEVICE_HEADS[headOf(rows)];
}

/** A holding in a table whose heads say `head`: "8", or "8 cores" where that is something else. */
export function countUnder(head: Device, mgpu: Quantity, device: Device): string {
  return device === head ? formatGpus(mgpu) : formatGpuCount(mgpu, device);
}

/** A time in a table whose heads say `head`: "1.00", or "1.00 core-h" where that is something else. */
export function hoursUnder(head: Device, mgpuS: Quantity, device: Device): string {
  return device === head ? formatGpuHours(mgpuS) : `${formatGpuHours(mgpuS)} ${deviceTime(device, "h")}`;
}

/** "1 GPU", "200 GPUs", "0.5 GPUs"; "8 cores" in a pool of CPU cores. */
export function formatGpuCount(mgpu: Quantity, device: Device = "gpu"): string {
  const gpus = formatGpus(mgpu);
  const words = DEVICE_WORDS[device];
  return `${gpus} ${gpus === "1" ? words.slice(0, -1) : words}`;
}

/** Milli-GPU-seconds as GPU-hours with two decimals: 3600000 -> "1.00". */
export function formatGpuHours(mgpuS: Quantity): string {
  return formatRatio(mgpuS, MGPU_S_PER_GPU_HOUR, 2, true);
}

/** Milli-GPU-seconds as GPU-seconds, to the unit: for checks that must be equal. */
export function formatGpuSeconds(mgpuS: Quantity): string {
  return formatRatio(mgpuS, MGPU_PER_GPU, 3, false);
}

/** The currencies whose decimals are not two, by ISO 4217, as in `primitives/currencies.py`. */
const CURRENCIES_BY_DIGITS: Readonly<Record<number, string>> = {
  0: "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF",
  3: "BHD IQD JOD KWD LYD OMN TND",
  4: "CLF UYW",
};
const DIGITS = new Map(
  Object.entries(CURRENCIES_BY_DIGITS).flatMap(([digits, codes]) => codes.split(" ").map((code) => [code, Number(digits)])),
);

/** The decimals of a currency: 2 for most. */
export function digitsOf(currency: string): number {
  return DIGITS.get(currency) ?? 2;
}

/** Nano-currency as money with the decimals of the currency: (1500000000, "EUR") -> "€1.50". */
export function formatMoney(nano: Quantity, currency: string): string {
  const amount = formatRatio(nano, NANO, digitsOf(currency), true);
  const symbol = currencySymbol(currency);
  const [, prefix = "", rest = amount] = /^([≈\u2212]*)(.*)$/.exec(amount) ?? [];
  return `${prefix}${symbol}${rest}`;
}

/** Money, or that there is no price: where no rate card applies, a cost of 0 would be a lie. */
export function formatCost(nano: Quantity, currency: string | null): string {
  return currency === null ? "no price" : formatMoney(nano, currency);
}

function currencySymbol(currency: string): string {
  if (!/^[A-Z]{3}$/.test(currency)) return `${currency} `;
  const parts = new Intl.NumberFormat("en", { style: "currency", currency }).formatToParts(0);
  const symbol = parts.find((part) => part.type === "currency")?.value ?? currency;
  return symbol.length > 2 ? `${symbol} ` : symbol;
}

/** How much more or less there is, with its sign: "+12", "\u22123", or "no change". */
export function formatDifference(
  before: number,
  after: number,
  format: (quantity: number) => string,
): string {
  if (before === after) return "no change";
  return after > before ? `+${format(after - before)}` : format(after - before);
}

/** A share as a percentage with one decimal; "–" where the whole is zero. */
export function formatShare(part: Quantity, whole: Quantity): string {
  const { value: wholeExact } = toBigInt(whole);
  if (wholeExact === 0n) return "–";
  const { value: partExact } = toBigInt(part);
  return `${formatRatio(partExact * 100n, wholeExact, 1, false)} %`;
}

/** A percentage as the API writes it, as people do: "50.00" -> "50 %", "33.33" -> "33.33 %". */
export function percentWords(percent: string): string {
  return `${percent.replace(/\.0+$|(\.\d*?)0+$/, "$1")} %`;
}

/** Price multipliers are parts per million: 1500000 -> "1.5×". */
export function formatMultiplier(ppm: Quantity): string {
  return `${formatRatio(ppm, 1_000_000n, 3, false)}×`;
}

/** Seconds in words, two units at most: 252 -> "4 min 12 s", 259200 -> "72 h". */
export function formatDuration(seconds: number): string {
  const total = Math.max(0, Math.round(seconds));
  const days = Math.floor(total / 86_400);
  const hours = Math.floor((total % 86_400) / 3600);
  const minutes = Math.floor((total % 3600) / 60);
  const rest = total % 60;
  const pair = (a: string, b: number, unit: string) => (b === 0 ? a : `${a} ${b} ${unit}`);
  if (days > 3) return pair(`${days} d`, hours, "h");
  if (days > 0 || hours > 0) return pair(`${days * 24 + hours} h`, minutes, "min");
  if (minutes > 0) return pair(`${minutes} min`, rest, "s");
  return `${rest} s`;
}

/** Seconds as a clock that counts down: 252 -> "4:12", 3730 -> "1:02:10". Never below 0:00. */
export function formatCountdown(seconds: number): string {
  const total = Math.max(0, Math.ceil(seconds));
  const hours = Math.floor(total / 3600);
  const minutes = Math.floor((total % 3600) / 60);
  const rest = String(total % 60).padStart(2, "0");
  return hours > 0 ? `${hours}:${String(minutes).padStart(2, "0")}:${rest}` : `${minutes}:${rest}`;
}

/**
 * "48 s ago", "now", "in 5 h 57 min". The past is cut to its larger unit; what is to come is not, as people
 * wait for it: to the minute within a day, to the nearest day beyond two.
 */
export function formatRelative(at: Date, now: Date): string {
  const seconds = Math.round((now.getTime() - at.getTime()) / 1000);
  if (seconds === 0) return "now";
  if (seconds < 0) {
    const left = -seconds;
    if (left < 60) return `in ${left} s`;
    if (left < 86_400) return `in ${formatDuration(Math.round(left / 60) * 60)}`;
    return left < 2 * 86_400 ? `in ${Math.round(left / 3600)} h` : `in ${Math.round(left / 86_400)} d`;
  }
  if (seconds < 60) return `${seconds} s ago`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  return seconds < 2 * 86_400 ? `${Math.floor(seconds / 3600)} h ago` : `${Math.floor(seconds / 86_400)} d ago`;
}

/** What a form field may hold as GPUs: "8", "0.5", "1,000". Returns milli-GPU, or null. */
export function parseGpus(text: string): number | null {
  const match = /^(\d{1,3}(?:,\d{3})+|\d{1,9})(?:\.(\d{1,3}))?$/.exec(text.trim());
  if (match?.[1] === undefined) return null;
  const whole = Number(match[1].replaceAll(",", ""));
  return whole * 1000 + Number((match[2] ?? "").padEnd(3, "0"));
}

/** Milli-GPU as the plain decimal that the API takes: 500 -> "0.5". No grouping. */
export function gpusToDecimal(mgpu: number): string {
  return formatGpus(mgpu).replaceAll(",", "").replace(MINUS, "-");
}

const UNIT_SECONDS = { s: 1, m: 60, h: 3600, d: 86_400 } as const;

/**
 * Seconds in a length of time with its unit ("90s", "30m", "2h", "1d12h"), or the sentence that says
 * what to write. The server and the command line read the same (`primitives/durations.py`).
 */
export function readDuration(text: string): { seconds: number } | { error: string } {
  const words = text.trim().toLowerCase();
  if (words === "0") return { seconds: 0 };
  if (!/^(?:\d{1,9}[smhd])+$/.test(words)) return refusedTime(text, "Write 90s, 30m, 2h or 1d12h.");
  let seconds = 0;
  for (const [, count, unit] of words.matchAll(/(\d+)([smhd])/g)) {
    seconds += Number(count) * UNIT_SECONDS[unit as keyof typeof UNIT_SECONDS];
  }
  return { seconds };
}

/** The same for a time limit, which may also be written with colons as Slurm does: "2:00:00", "1-12:30". */
export function readTimeLimit(text: string): { seconds: number } | { error: string } {
  const clock = /^(?:(\d{1,6})-)?(\d{1,9})(?::(\d{1,9}))?(?::(\d{1,9}))?$/.exec(text.trim());
  if (clock !== null && (clock[1] !== undefined || clock[3] !== undefined)) {
    const [, days, first = "0", second = "0", third = "0"] = clock;
    const isFromHours = days !== undefined || clock[4] !== undefined;
    const [hours, minutes, seconds] = isFromHours ? [first, second, third] : ["0", first, second];
    return { seconds: Number(days ?? 0) * 86_400 + Number(hours) * 3600 + Number(minutes) * 60 + Number(seconds) };
  }
  const read = readDuration(text);
  return "seconds" in read ? read : refusedTime(text, "Write 90s, 30m, 2h, 1d12h or hours:minutes:seconds.");
}

function refusedTime(text: string, sentence: string): { error: string } {
  const shown = `'${text.slice(0, 40)}'`;
  if (!/^\d+$/.test(text.trim())) return { error: `${shown} is not a duration. ${sentence}` };
  const short = text.trim().slice(0, 9);
  return { error: `${shown} has no unit. Write ${short}s, ${short}m or ${short}h.` };
}

const EXACT = new Intl.DateTimeFormat("en-GB", {
  year: "numeric",
  month: "short",
  day: "2-digit",
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  hour12: false,
});
const CLOCK = new Intl.DateTimeFormat("en-GB", {
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  hour12: false,
});

/** Local date and time to the second: "21 Nov 2026, 14:03:10". */
export function formatExact(at: Date): string {
  return EXACT.format(at);
}

/** Local clock time to the second: "14:03:10"; of another day with its date, as it would mislead without. */
export function formatClock(at: Date, now: Date): string {
  return at.toDateString() === now.toDateString() ? CLOCK.format(at) : EXACT.format(at);
}

/** The reader's zone at that moment: "UTC+1 (Europe/Berlin)". */
export function zoneName(at: Date): string {
  const minutes = -at.getTimezoneOffset();
  const hours = Math.trunc(Math.abs(minutes) / 60);
  const rest = Math.abs(minutes) % 60;
  const offset =
    minutes === 0
      ? "UTC"
      : `UTC${minutes > 0 ? "+" : MINUS}${hours}${rest === 0 ? "" : `:${String(rest).padStart(2, "0")}`}`;
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  return zone === "" || zone === "UTC" ? offset : `${offset} (${zone})`;
}

/** "1.2 MB"; units of a thousand, as file managers show them. */
export function sizeOf(bytes: number | undefined): string {
  if (bytes === undefined) return "–";
  const units = ["B", "kB", "MB", "GB", "TB"];
  let rest = bytes;
  let unit = 0;
  while (rest >= 1_000 && unit < units.length - 1) {
    rest /= 1_000;
    unit += 1;
  }
  return `${unit === 0 ? rest : rest.toFixed(1)} ${units[unit] ?? ""}`;
}

/** Bytes of memory in units of 1,024, as jobs ask for it: 209715200 -> "200 MiB"; "–" where it is not known. */
export function formatMemory(bytes: number | null): string {
  if (bytes === null) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let rest = bytes;
  let unit = 0;
  while (rest >= 1_024 && unit < units.length - 1) {
    rest /= 1_024;
    unit += 1;
  }
  return `${Number(rest.toFixed(1)).toString()} ${units[unit] ?? ""}`;
}
