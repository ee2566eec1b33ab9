import type { Quota, QuotaPatch } from "../api/types";
import { DEVICE_WORDS, gpusToDecimal, parseGpus } from "../ui/units";

/** What is typed, as text. */
export interface QuotaFields {
  unit: "gpus" | "percent";
  guaranteed: string;
  borrowLimit: string;
  lendLimit: string;
  weight: string;
  reason: string;
}

export function fieldsOf(quota: Quota): QuotaFields {
  const limit = (mgpu: number | null) => (mgpu === null ? "" : gpusToDecimal(mgpu));
  return {
    unit: quota.guaranteed_percent === null ? "gpus" : "percent",
    guaranteed: quota.guaranteed_percent ?? gpusToDecimal(quota.guaranteed_mgpu),
    borrowLimit: limit(quota.borrow_limit_mgpu),
    lendLimit: limit(quota.lend_limit_mgpu),
    weight: String(quota.weight),
    reason: "",
  };
}

/** "40", "33.33" in hundredths of a percent, or null. At most 100. */
export function parsePercent(text: string): number | null {
  const match = /^(\d{1,3})(?:\.(\d{1,2}))?$/.exec(text.trim());
  if (match?.[1] === undefined) return null;
  const hundredths = Number(match[1]) * 100 + Number((match[2] ?? "").padEnd(2, "0"));
  return hundredths <= 10_000 ? hundredths : null;
}

/** Hundredths of a percent as the API writes them: 4000 -> "40.00". */
export function percentText(hundredths: number): string {
  return `${Math.floor(hundredths / 100)}.${String(hundredths % 100).padStart(2, "0")}`;
}

export interface ReadForm {
  errors: Partial<Record<keyof QuotaFields, string>>;
  /** Only what differs from `base`; null while something is wrong, unchanged or unexplained. */
  patch: QuotaPatch | null;
  guaranteedMgpu: (parent: Quota | null) => number | null;
}

/** Reads the typed fields against the quota that was on screen. */
export function readForm(base: Quota, fields: QuotaFields): ReadForm {
  const errors: ReadForm["errors"] = {};
  const patch: QuotaPatch = { reason: fields.reason.trim() };
  const before = fieldsOf(base);
  const devices = DEVICE_WORDS[base.device];

  const gpus = fields.unit === "gpus" ? parseGpus(fields.guaranteed) : null;
  const percent = fields.unit === "percent" ? parsePercent(fields.guaranteed) : null;
  if (fields.unit === "gpus") {
    if (gpus === null) errors.guaranteed = `A number of ${devices}, such as 200 or 0.5.`;
    else if (gpus !== base.guaranteed_mgpu || base.guaranteed_percent !== null) patch.guaranteed_mgpu = gpus;
  } else if (percent === null) {
    errors.guaranteed = "A percentage from 0 to 100, such as 40 or 33.33.";
  } else if (percentText(percent) !== base.guaranteed_percent) {
    patch.guaranteed_percent = percentText(percent);
  }

  const limit = (key: "borrowLimit" | "lendLimit", field: "borrow_limit_mgpu" | "lend_limit_mgpu") => {
    const text = fields[key].trim();
    const value = text === "" ? null : parseGpus(text);
    if (text !== "" && value === null) errors[key] = `A number of ${devices}, or empty.`;
    else if (value !== base[field]) patch[field] = value;
  };
  limit("borrowLimit", "borrow_limit_mgpu");
  limit("lendLimit", "lend_limit_mgpu");

  if (fields.weight !== before.weight) {
    if (/^\d{1,6}$/.test(fields.weight.trim())) patch.weight = Number(fields.weight.trim());
    else errors.weight = "A whole number.";
  }

  const isChanged = Object.keys(patch).length > 1;
  const isReady = Object.keys(errors).length === 0 && isChanged && patch.reason !== "";
  return {
    errors,
    patch: isReady ? patch : null,
    guaranteedMgpu: (parent) => {
      if (fields.unit === "gpus") return gpus;
      if (percent === null || parent === null) return null;
      return Math.floor((parent.guaranteed_mgpu * percent) / 10_000);
    },
  };
}
