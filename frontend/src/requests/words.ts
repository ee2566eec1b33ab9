import type { ChangeRequest, GuardedWrite, RequestKind, RequestSupply } from "../api/types";
import type { PillTone } from "../jobs/words";
import { LABELS } from "../quotas/changes";
import type { QuotaUse } from "../quotas/use";
import { formatGpus, type Device } from "../ui/units";

export const KIND_WORDS: Record<RequestKind, string> = {
  guarantee: "More guarantee",
  borrow_limit: "Borrow limit",
  loan: "Offer to lend",
  budget: "Budget",
  class_cap: "Class cap",
  role: "Role",
  write: "Second person",
};

export const STATUS_WORDS: Record<ChangeRequest["status"], string> = {
  pending: "waits for a decision",
  countered: "counter-offer made",
  approved: "approved",
  rejected: "rejected",
  withdrawn: "withdrawn",
  expired: "expired",
};

export const STATUS_TONES: Record<ChangeRequest["status"], PillTone> = {
  pending: "wait",
  countered: "wait",
  approved: "run",
  rejected: "bad",
  withdrawn: "",
  expired: "",
};

/** Milli-GPUs by path of the sibling that gives them; null where the typed number cannot be read. */
export type Gives = Record<string, number | null>;

/** The bar of a node with this guarantee and use. */
export function barOf(guaranteedMgpu: number, inUseMgpu: number, device: Device): QuotaUse {
  return {
    device,
    guaranteedMgpu,
    inUseMgpu,
    solidMgpu: Math.min(inUseMgpu, guaranteedMgpu),
    borrowedMgpu: Math.max(0, inUseMgpu - guaranteedMgpu),
    lentMgpu: 0,
    idleMgpu: Math.max(0, guaranteedMgpu - inUseMgpu),
    waitingMgpu: 0,
    ceilingMgpu: null,
  };
}

/** Sources for an amount: offers to lend first, then the parent's reserve, then idle guarantees of siblings. */
export function suggestedSources(supply: RequestSupply, amountMgpu: number): Gives {
  const gives: Gives = {};
  let missing = amountMgpu;
  const take = (node: string, mostMgpu: number) => {
    const mgpu = Math.min(missing, Math.max(0, mostMgpu));
    if (mgpu > 0) gives[node] = (gives[node] ?? 0) + mgpu;
    missing -= mgpu;
  };
  for (const { node, offered_mgpu, guaranteed_mgpu } of supply.sources) {
    take(node, Math.min(offered_mgpu, guaranteed_mgpu));
  }
  missing -= Math.min(missing, supply.reserve_mgpu);
  for (const { node, guaranteed_mgpu, in_use_mgpu } of supply.sources) {
    take(node, guaranteed_mgpu - in_use_mgpu - (gives[node] ?? 0));
  }
  return gives;
}

/** Terms that a decision may offer: how much, and from where. */
export interface ComparedOffer {
  key: "asked" | "unused" | "offered";
  words: string;
  amountMgpu: number;
  gives: Gives;
  reserveMgpu: number;
}

/** The request as asked, what nobody uses, and what siblings offer: the last two where they are less. */
export function comparedOffers(supply: RequestSupply, askedMgpu: number): ComparedOffer[] {
  const offeredOf = ({ offered_mgpu, guaranteed_mgpu }: RequestSupply["sources"][number]) =>
    Math.min(offered_mgpu, guaranteed_mgpu);
  const most = (ofSource: (source: RequestSupply["sources"][number]) => number) =>
    supply.reserve_mgpu + supply.sources.reduce((sum, source) => sum + ofSource(source), 0);
  const unusedMgpu = most((source) => Math.max(offeredOf(source), source.guaranteed_mgpu - source.in_use_mgpu));
  const amounts = [
    { key: "asked", words: "as asked", mgpu: askedMgpu },
    { key: "unused", words: "that nobody uses or that are offered", mgpu: wholeGpus(unusedMgpu) },
    { key: "offered", words: "that are offered or in reserve", mgpu: wholeGpus(most(offeredOf)) },
  ] as const;
  return amounts
    .filter(({ mgpu }, place) => mgpu > 0 && amounts.slice(0, place).every((earlier) => mgpu < earlier.mgpu))
    .map(({ key, words, mgpu }) => {
      const gives = suggestedSources(supply, mgpu);
      return { key, words, amountMgpu: mgpu, gives, reserveMgpu: Math.min(supply.reserve_mgpu, mgpu - sumOf(gives)) };
    });
}

function wholeGpus(mgpu: number): number {
  return Math.floor(mgpu / 1000) * 1000;
}

export function sumOf(gives: Gives): number {
  return Object.values(gives).reduce<number>((sum, mgpu) => sum + (mgpu ?? 0), 0);
}

/** The sources in the form of the API. */
export function asSources(gives: Gives): { node: string; amount_mgpu: number }[] {
  return Object.entries(gives)
    .map(([node, mgpu]) => ({ node, amount_mgpu: mgpu ?? 0 }))
    .filter(({ amount_mgpu }) => amount_mgpu > 0);
}

/** A setting that a write changes, in words. */
export interface ChangedSetting {
  of: string;
  setting: string;
  before: string;
  after: string;
}

type Settings = Readonly<Record<string, unknown>>;

/** A stored percentage is in hundredths of a percent. */
const SETTING_WORDS: Readonly<Record<string, string | undefined>> = {
  ...LABELS,
  guaranteed_bp: LABELS.guaranteed_percent,
};

/** The changed settings of quotas. A quota that is made or deleted has its guarantee alone. */
export function quotaChanges(write: GuardedWrite): ChangedSetting[] {
  return write.quotas.flatMap(({ node, pool, before, after }) => {
    const of = `${node} in ${pool}`;
    if (before === null || after === null) {
      const guaranteed = (values: Settings | null) => valueText("guaranteed_mgpu", values?.guaranteed_mgpu);
      return [{ of, setting: "guaranteed", before: guaranteed(before), after: guaranteed(after) }];
    }
    return changed(of, before, after);
  });
}

/** The changed settings of policies and classes. */
export function ruleChanges(write: GuardedWrite): ChangedSetting[] {
  return write.rules.flatMap(({ rule, before, after }) => changed(rule, before, after));
}

function changed(of: string, before: Settings, after: Settings): ChangedSetting[] {
  return Object.keys(after)
    .filter((name) => JSON.stringify(before[name]) !== JSON.stringify(after[name]))
    .map((name) => ({
      of,
      setting: SETTING_WORDS[name] ?? name.replaceAll("_", " "),
      before: valueText(name, before[name]),
      after: valueText(name, after[name]),
    }));
}

function valueText(name: string, value: unknown): string {
  if (value === null || value === undefined) return "none";
  if (name.includes("_mgpu") && typeof value === "number") return formatGpus(value);
  if (name === "guaranteed_bp" && typeof value === "number") return `${value / 100} %`;
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value === "string" || typeof value === "number") return String(value);
  return Array.isArray(value) ? value.join(", ") : JSON.stringify(value);
}
