import { formatClock, formatDuration, formatGpuCount, formatGpus, type Device } from "../ui/units";
import { CONDITION_WORDS } from "./words";

const ISO_TIME = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d+)?(?:Z|[+-]\d{2}:\d{2})$/;
const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

function describeValue(key: string, value: unknown): string | null {
  if (typeof value === "number" && key.endsWith("_mgpu")) return formatGpus(value);
  if (typeof value === "number" && key.endsWith("_s")) return formatDuration(value);
  if (typeof value === "number") return String(value);
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value !== "string" || value === "" || UUID.test(value)) return null;
  return ISO_TIME.test(value) ? formatClock(new Date(value), new Date()) : value.replaceAll("_", " ");
}

/** That a job was waited for, and what became of it. */
function describeWait({ condition, reason, state, waited_for_name: name }: Readonly<Record<string, unknown>>): string {
  const who = typeof name === "string" ? name : "a job that you may not see";
  const asked = condition === "succeeded" || condition === "failed" ? CONDITION_WORDS[condition] : CONDITION_WORDS.ended;
  if (typeof reason !== "string") return `${who} ${asked}`;
  return `${reason.replaceAll("_", " ")}: it waited until ${who} ${asked}, which is ${String(state).replaceAll("_", " ")}`;
}

/** The data of an event in a few words: "attempt 1 · grace 5 min". Bare ids tell nobody anything. */
export function describeDetail(detail: Readonly<Record<string, unknown>>, device: Device): string {
  if ("waited_for" in detail || "waited_for_array" in detail) return describeWait(detail);
  return Object.entries(detail)
    .flatMap(([key, value]) => {
      // A sentence, with names in it as they are.
      if (key === "because" && typeof value === "string") return [value];
      if (key === "mgpu" && typeof value === "number") return [formatGpuCount(value, device)];
      const text = describeValue(key, value);
      return text === null ? [] : [`${key.replace(/_(?:mgpu|s)$/, "").replaceAll("_", " ")} ${text}`];
    })
    .join(" · ");
}
