/** Times of datetime-local fields, in the zone of this browser. */

/** "2026-12-01T08:00" of the reader's zone as the API's UTC, or null. */
export function utcOfLocal(text: string): string | null {
  const moment = new Date(text);
  if (text === "" || Number.isNaN(moment.getTime())) return null;
  return moment.toISOString().replace(/\.\d{3}Z$/, "Z");
}

/** The API's UTC as a field for local times takes it. */
export function localOfUtc(text: string): string {
  const moment = new Date(text);
  const shifted = new Date(moment.getTime() - moment.getTimezoneOffset() * 60_000);
  return shifted.toISOString().slice(0, 16);
}
