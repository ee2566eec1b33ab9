/** Addresses as plain `?key=text`: readable, and the same that the REST API takes. */

export type RawSearch = Record<string, unknown>;

export function parseSearch(search: string): Record<string, string> {
  return Object.fromEntries(new URLSearchParams(search));
}

export function stringifySearch(search: RawSearch): string {
  const params = new URLSearchParams();
  for (const [key, value] of Object.entries(search)) {
    if (typeof value === "string" && value !== "") params.set(key, value);
    else if (typeof value === "number" || typeof value === "boolean") params.set(key, String(value));
  }
  // Paths and lists stay readable; both characters are allowed in a query.
  const text = params.toString().replaceAll("%2F", "/").replaceAll("%2C", ",").replaceAll("%3A", ":");
  return text === "" ? "" : `?${text}`;
}

/** A non-empty text parameter of at most 500 characters, or undefined. */
export function textParam(search: RawSearch, key: string): string | undefined {
  const value = search[key];
  return typeof value === "string" && value !== "" ? value.slice(0, 500) : undefined;
}

/** A time as the API takes it, or undefined. */
export function timeParam(search: RawSearch, key: string): string | undefined {
  const ms = Date.parse(textParam(search, key) ?? "");
  return Number.isNaN(ms) ? undefined : new Date(ms).toISOString().replace(/\.\d{3}Z$/, "Z");
}

/** One of `allowed`, or undefined. */
export function choiceParam<T extends string>(
  search: RawSearch,
  key: string,
  allowed: readonly T[],
): T | undefined {
  return allowed.find((each) => each === search[key]);
}

/** A whole number from 0 to `max`, or undefined. */
export function numberParam(search: RawSearch, key: string, max: number): number | undefined {
  const value = search[key];
  const number = typeof value === "number" ? value : typeof value === "string" && /^\d{1,9}$/.test(value) ? Number(value) : NaN;
  return Number.isInteger(number) && number <= max ? number : undefined;
}
