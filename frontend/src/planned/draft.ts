import type { PlannedChange, PlannedEditRequest, Quota } from "../api/types";
import { parsePercent, percentText } from "../quotas/form";
import { DEVICE_HEADS, DEVICE_WORDS, gpusToDecimal, parseGpus, percentWords } from "../ui/units";

/** What is typed for one quota, as text. The guarantee is GPUs, or with "%" a part of the parent's. */
export interface RowFields {
  guaranteed: string;
  borrowLimit: string;
  lendLimit: string;
  weight: string;
}
/** Only what somebody typed. What is absent stays as the server has it, whoever changes it meanwhile. */
export type TypedFields = Partial<RowFields>;
export type RowErrors = Partial<Record<keyof RowFields, string>>;

/** The fields of a draft by the names that the API's refusals have. */
export const API_FIELDS: Readonly<Record<string, keyof RowFields>> = {
  guaranteed_mgpu: "guaranteed",
  guaranteed_percent: "guaranteed",
  borrow_limit_mgpu: "borrowLimit",
  lend_limit_mgpu: "lendLimit",
  weight: "weight",
};

function limitText(mgpu: number | null): string {
  return mgpu === null ? "" : gpusToDecimal(mgpu);
}

export function rowFieldsOf(
  quota: Pick<
    Quota,
    "guaranteed_mgpu" | "guaranteed_percent" | "borrow_limit_mgpu" | "lend_limit_mgpu" | "weight"
  >,
): RowFields {
  return {
    guaranteed:
      quota.guaranteed_percent === null ? gpusToDecimal(quota.guaranteed_mgpu) : percentWords(quota.guaranteed_percent),
    borrowLimit: limitText(quota.borrow_limit_mgpu),
    lendLimit: limitText(quota.lend_limit_mgpu),
    weight: String(quota.weight),
  };
}

/** The typed rows of a draft, by quota: what it sets, and nothing else. */
export function rowsOfDraft(change: PlannedChange): Record<string, TypedFields> {
  return Object.fromEntries(
    change.edits.map(({ quota, set }) => {
      const typed: TypedFields = {};
      if (set.guaranteed_mgpu !== undefined) typed.guaranteed = gpusToDecimal(set.guaranteed_mgpu);
      if (set.guaranteed_percent !== undefined) typed.guaranteed = percentWords(set.guaranteed_percent);
      if (set.borrow_limit_mgpu !== undefined) typed.borrowLimit = limitText(set.borrow_limit_mgpu);
      if (set.lend_limit_mgpu !== undefined) typed.lendLimit = limitText(set.lend_limit_mgpu);
      if (set.weight !== undefined) typed.weight = String(set.weight);
      return [quota, typed];
    }),
  );
}

/** A row after one more key press. A field that says again what the quota says counts as not typed. */
export function typedAfter(quota: Quota, typed: TypedFields, change: TypedFields): TypedFields {
  const shown = rowFieldsOf(quota);
  const names: (keyof RowFields)[] = ["guaranteed", "borrowLimit", "lendLimit", "weight"];
  return Object.fromEntries(
    names.flatMap((name) => {
      const text = name in change ? change[name] : typed[name];
      return text === undefined || text === shown[name] ? [] : [[name, text]];
    }),
  );
}

/** "40 %" as hundredths of a percent, "200" as milli-GPU, or null. */
function readGuarantee(text: string): { hundredths: number } | { mgpu: number } | null {
  const percent = /^(.*)%$/.exec(text.trim())?.[1];
  if (percent !== undefined) {
    const hundredths = parsePercent(percent);
    return hundredths === null ? null : { hundredths };
  }
  const mgpu = parseGpus(text);
  return mgpu === null ? null : { mgpu };
}

/** What a row sets that is not so already; null while something in it is wrong. */
export function readRow(
  quota: Quota,
  typed: TypedFields,
): { errors: RowErrors; edit: PlannedEditRequest | null; isEdited: boolean } {
  const errors: RowErrors = {};
  const devices = DEVICE_WORDS[quota.device];
  const edit: PlannedEditRequest = { quota: quota.id };
  if (typed.guaranteed !== undefined) {
    const guarantee = readGuarantee(typed.guaranteed);
    if (guarantee === null) {
      errors.guaranteed =
        quota.parent === null
          ? `A number of ${devices}, such as 200.`
          : `${DEVICE_HEADS[quota.device]}, such as 200, or a part of the parent's, such as 40 %.`;
    } else if ("hundredths" in guarantee) {
      if (quota.parent === null) errors.guaranteed = `An organization has no parent: a number of ${devices}.`;
      else if (percentText(guarantee.hundredths) !== quota.guaranteed_percent) {
        edit.guaranteed_percent = percentText(guarantee.hundredths);
      }
    } else if (guarantee.mgpu !== quota.guaranteed_mgpu || quota.guaranteed_percent !== null) {
      edit.guaranteed_mgpu = guarantee.mgpu;
    }
  }
  const limit = (key: "borrowLimit" | "lendLimit", field: "borrow_limit_mgpu" | "lend_limit_mgpu") => {
    const text = typed[key]?.trim();
    if (text === undefined) return;
    const mgpu = text === "" ? null : parseGpus(text);
    if (text !== "" && mgpu === null) errors[key] = `A number of ${devices}, or empty.`;
    else if (mgpu !== quota[field]) edit[field] = mgpu;
  };
  limit("borrowLimit", "borrow_limit_mgpu");
  limit("lendLimit", "lend_limit_mgpu");
  const weight = typed.weight?.trim();
  if (weight !== undefined) {
    if (!/^\d{1,7}$/.test(weight) || Number(weight) < 1) errors.weight = "A whole number from 1.";
    else if (Number(weight) !== quota.weight) edit.weight = Number(weight);
  }
  const isEdited = Object.keys(edit).length > 1 || Object.keys(errors).length > 0;
  return { errors, edit: Object.keys(errors).length === 0 ? edit : null, isEdited };
}

/** A quota as the typed figures would leave it, in milli-GPU. */
export interface Outlook {
  guaranteedMgpu: number;
  /** Guaranteed here, but to nobody below: negative where those below would have too much. */
  reserveMgpu: number;
  hasChildren: boolean;
}

/**
 * What the typed figures would leave of each quota of one pool, by node. `quotas` comes parents first.
 * Parts of GPUs that percentages leave over are shared out by the server, so this is close, not exact.
 */
export function outlook(
  quotas: readonly Quota[],
  rows: Readonly<Record<string, TypedFields>>,
): Map<string, Outlook> {
  const found = new Map<string, Outlook>();
  for (const quota of quotas) {
    const typed = rows[quota.id]?.guaranteed;
    const guarantee = typed === undefined ? null : readGuarantee(typed);
    const written = quota.guaranteed_percent === null ? null : parsePercent(quota.guaranteed_percent);
    const hundredths =
      guarantee === null ? (typed === undefined ? written : null) : "hundredths" in guarantee ? guarantee.hundredths : null;
    const parent = quota.parent === null ? undefined : found.get(quota.parent);
    let guaranteedMgpu = quota.guaranteed_mgpu;
    if (guarantee !== null && "mgpu" in guarantee) guaranteedMgpu = guarantee.mgpu;
    else if (hundredths !== null && parent !== undefined) {
      guaranteedMgpu = Math.floor((parent.guaranteedMgpu * hundredths) / 10_000);
    }
    found.set(quota.node, { guaranteedMgpu, reserveMgpu: guaranteedMgpu, hasChildren: false });
    if (parent !== undefined) {
      parent.reserveMgpu -= guaranteedMgpu;
      parent.hasChildren = true;
    }
  }
  return found;
}
