import { formatCount, formatDuration, formatGpus, formatMultiplier, gpusToDecimal, parseGpus, readDuration } from "../ui/units";

/** A setting of a policy: how it is called, what it means, and what it may be. */
export interface Field {
  name: string;
  label: string;
  meaning: string;
  /**
   * seconds: typed as a time; optional seconds and optional count: empty for none; gpus: milli-GPU, empty for none; multiplier: parts per million, typed as times;
   * rank: paths, the first goes first.
   */
  kind: "seconds" | "optional seconds" | "count" | "optional count" | "gpus" | "multiplier" | "yes" | "choice" | "text" | "rank";
  min?: number;
  max?: number;
  choices?: readonly { value: string; label: string }[];
}

const DAY_S = 86_400;
const PPM = 1_000_000;

const SPARE_ORDERS = [
  { value: "credits_then_fair_share", label: "credits, then fair-share" },
  { value: "fair_share_then_credits", label: "fair-share, then credits" },
  { value: "fair_share", label: "fair-share only" },
] as const;

export const POLICY_FIELDS: readonly Field[] = [
  {
    name: "rank",
    label: "Rank",
    meaning: "The order in which nodes receive spare GPUs, line by line. Unnamed nodes come last.",
    kind: "rank",
  },
  {
    name: "spare_order",
    label: "Order of spare GPUs",
    meaning: "The order among teams of equal rank. Without credits, fair-share decides alone.",
    kind: "choice",
    choices: SPARE_ORDERS,
  },
  {
    name: "fair_share_half_life_s",
    label: "Half-life of use",
    meaning: "The time after which past use counts half in fair-share.",
    kind: "seconds",
    min: 3600,
    max: 3650 * DAY_S,
  },
  {
    name: "grace_period_s",
    label: "Grace period",
    meaning: "The longest time between a reclaim notice and the forced stop. A class may set less.",
    kind: "seconds",
    min: 0,
    max: DAY_S,
  },
  {
    name: "min_run_s",
    label: "Minimum run time",
    meaning: "Jobs younger than this are preempted last, but are not protected.",
    kind: "seconds",
    min: 0,
    max: DAY_S,
  },
  {
    name: "preemptions_max",
    label: "Preemptions of a job",
    meaning: "Jobs preempted this often are spared where possible.",
    kind: "count",
    min: 1,
    max: 1000,
  },
  {
    name: "skips_blocked_within_team",
    label: "Jobs pass blocked ones of their team",
    meaning: "Off: each team's queue is strictly first in, first out.",
    kind: "yes",
  },
  {
    name: "time_zone",
    label: "Time zone",
    meaning: "A name such as Europe/Berlin.",
    kind: "text",
    max: 64,
  },
];

export const CLASS_FIELDS: readonly Field[] = [
  { name: "description", label: "What it is for", meaning: "Shown where a class is chosen.", kind: "text", max: 200 },
  {
    name: "order",
    label: "Priority",
    meaning: "Higher is served first inside a team.",
    kind: "count",
    min: 0,
    max: 1_000_000,
  },
  {
    name: "grace_period_s",
    label: "Grace period",
    meaning: "From the reclaim notice to the forced stop; at most the organization's.",
    kind: "seconds",
    min: 0,
    max: DAY_S,
  },
  {
    name: "team_cap_mgpu",
    label: "Cap in each team",
    meaning: "GPUs of a pool, or cores, that jobs of this class may hold in one team. Empty: no cap.",
    kind: "gpus",
  },
  {
    name: "preempts_within_team",
    label: "Preempts lower classes in its team",
    meaning: "Only where no GPU is free for the job.",
    kind: "yes",
  },
  {
    name: "preempts_across_teams",
    label: "Preempts lower classes in all teams",
    meaning: "Also inside their guarantees, up to the cap in each team. Needs a cap.",
    kind: "yes",
  },
  {
    name: "use_factor_percent",
    label: "Use counts at (%)",
    meaning: "How much of the use of its jobs counts for fair-share, for jobs that start from now on.",
    kind: "count",
    min: 0,
    max: 1000,
  },
  {
    name: "is_retired",
    label: "Retired",
    meaning: "New jobs cannot use this class. Existing jobs keep it.",
    kind: "yes",
  },
];

/** Changes of quotas, policy and classes that need a second person. */
export const SECOND_PERSON_FIELDS: readonly Field[] = [
  {
    name: "stopped_jobs_min",
    label: "From this many stopped jobs",
    meaning: "Running jobs that a change would stop, from which it needs a second person. Empty: never.",
    kind: "optional count",
    min: 1,
    max: 1_000_000,
  },
  {
    name: "moved_mgpu_max",
    label: "Above this many moved GPUs",
    meaning: "GPUs that a person may move alone within a day. Empty: any number.",
    kind: "gpus",
  },
  {
    name: "guards_rules",
    label: "Changes of the policy and of classes",
    meaning: "Each of them needs a second person, but for prices, descriptions and the time zone.",
    kind: "yes",
  },
  {
    name: "allows_emergency",
    label: "Emergencies",
    meaning: "A platform administrator may go on alone, with a reason. The others are told.",
    kind: "yes",
  },
];

/** Time limits of the jobs of a pool, a node or a class. */
export const LIMIT_FIELDS: readonly Field[] = [
  {
    name: "default_s",
    label: "Default",
    meaning: "The time limit of jobs that ask for none. Empty: none from here.",
    kind: "optional seconds",
    min: 60,
    max: 365 * DAY_S,
  },
  {
    name: "longest_s",
    label: "Longest",
    meaning: "The longest time limit that a job may ask for. Empty: none from here.",
    kind: "optional seconds",
    min: 60,
    max: 365 * DAY_S,
  },
];

/** What a class costs is set by who manages prices. */
export const PRICE_FIELD: Field = {
  name: "price_multiplier_ppm",
  label: "Price",
  meaning: "A multiple of the pool's price, for jobs that start from now on.",
  kind: "multiplier",
  max: 100,
};

export const INSTALLATION_FIELDS: readonly Field[] = [
  {
    name: "grace_period_s_max",
    label: "Longest grace period",
    meaning: "From the reclaim notice to the forced stop, for every organization.",
    kind: "seconds",
    min: 0,
    max: DAY_S,
  },
  {
    name: "reservations_max",
    label: "Reservations of a pool",
    meaning: "How many of the first blocked jobs get a reservation at their earliest start. 0: none.",
    kind: "count",
    min: 0,
    max: 1000,
  },
  {
    name: "reservation_horizon_s",
    label: "Horizon of reservations",
    meaning: "The longest time for which GPUs are reserved for a job. Below the longest time limits, large jobs may wait without a bound.",
    kind: "seconds",
    min: 0,
    max: 366 * DAY_S,
  },
  {
    name: "credit_floor_s",
    label: "Floor of credits",
    meaning:
      "The lowest credit balance of a team, as time of its whole guarantee. Use below it is not charged.",
    kind: "seconds",
    min: 0,
    max: 365 * DAY_S,
  },
  {
    name: "min_run_s",
    label: "Minimum run time between organizations",
    meaning: "Jobs younger than this are preempted last when another organization reclaims GPUs.",
    kind: "seconds",
    min: 0,
    max: DAY_S,
  },
  {
    name: "preemptions_max",
    label: "Preemptions between organizations",
    meaning: "Jobs preempted this often are spared where possible when another organization reclaims GPUs.",
    kind: "count",
    min: 1,
    max: 1000,
  },
  {
    name: "costly_loss_s",
    label: "Costly loss",
    meaning:
      "Jobs that would lose more work than this are preempted last, whatever their team's credits.",
    kind: "seconds",
    min: 0,
    max: 3650 * DAY_S,
  },
  {
    name: "claim_overdue_s",
    label: "Timeout of overdue GPUs",
    meaning: "How long the scheduler waits for a stopped job's GPUs after the grace period, before it claims others.",
    kind: "seconds",
    min: 0,
    max: DAY_S,
  },
  {
    name: "starts_max",
    label: "Starts in a cycle",
    meaning: "The rest follows in the next cycle, a second or two later.",
    kind: "count",
    min: 1,
    max: 1_000_000,
  },
  {
    name: "reclaims_max",
    label: "Reclaims in a cycle",
    meaning: "Jobs for which one cycle preempts others. The rest follows in the next cycle.",
    kind: "count",
    min: 1,
    max: 1_000_000,
  },
];

export type Value = string | number | boolean | readonly string[] | null;
/** What is typed: text, but for switches and lists. */
export type Typed = string | boolean | readonly string[];

/** Seconds as a field takes them, exactly: 300 -> "5m", 90000 -> "1d1h". */
export function timeText(seconds: number): string {
  const parts: string[] = [];
  let rest = seconds;
  for (const [unit, size] of [["d", DAY_S], ["h", 3600], ["m", 60], ["s", 1]] as const) {
    const count = Math.floor(rest / size);
    rest -= count * size;
    if (count > 0) parts.push(`${count}${unit}`);
  }
  return parts.join("") || "0s";
}

export function typedOf(field: Field, value: Value): Typed {
  switch (field.kind) {
    case "seconds":
      return timeText(Number(value));
    case "optional seconds":
      return value === null ? "" : timeText(Number(value));
    case "optional count":
      return value === null ? "" : String(value);
    case "gpus":
      return value === null ? "" : gpusToDecimal(Number(value));
    case "multiplier":
      return String(Number(value) / PPM);
    case "yes":
      return value === true;
    case "rank":
      return Array.isArray(value) ? (value as readonly string[]) : [];
    default:
      return String(value ?? "");
  }
}

function isCount({ kind }: Field): boolean {
  return kind === "count" || kind === "optional count";
}

/** From and to where a number may go, in words. */
export function rangeText(field: Field): string | null {
  if (field.kind === "multiplier") return `0 to ${field.max ?? 0} times`;
  if (!["seconds", "optional seconds", "count", "optional count"].includes(field.kind)) return null;
  const show = (value: number) => (isCount(field) ? formatCount(value) : formatDuration(value));
  return `${show(field.min ?? 0)} to ${show(field.max ?? 0)}`;
}

/** What was typed as the API takes it, or what is wrong with it. */
export function readField(field: Field, typed: Typed): { value: Value } | { error: string } {
  if (typeof typed !== "string") return { value: typed };
  const text = typed.trim();
  switch (field.kind) {
    case "seconds":
    case "optional seconds":
    case "count":
    case "optional count": {
      if (field.kind.startsWith("optional") && text === "") return { value: null };
      const read = !isCount(field) ? readDuration(text) : /^\d{1,7}$/.test(text) ? { seconds: Number(text) } : { error: "A whole number." };
      if ("error" in read) return read;
      const value = read.seconds;
      const isOut = value < (field.min ?? 0) || value > (field.max ?? Infinity);
      return isOut ? { error: `From ${rangeText(field) ?? ""}.` } : { value };
    }
    case "gpus": {
      const value = text === "" ? null : parseGpus(text);
      return text !== "" && value === null ? { error: "A number of GPUs, or empty." } : { value };
    }
    case "multiplier": {
      if (!/^\d{1,4}(\.\d{1,6})?$/.test(text)) return { error: "How many times the price, such as 1.5." };
      const value = Math.round(Number(text) * PPM);
      return value > (field.max ?? Infinity) * PPM ? { error: `From ${rangeText(field) ?? ""}.` } : { value };
    }
    default:
      return { value: text };
  }
}

/** A setting as people read it. */
export function showValue(field: Field, value: Value): string {
  if (value === null) return "none";
  switch (field.kind) {
    case "seconds":
    case "optional seconds":
      return formatDuration(Number(value));
    case "gpus":
      return formatGpus(Number(value));
    case "count":
    case "optional count":
      return formatCount(Number(value));
    case "multiplier":
      return formatMultiplier(Number(value));
    case "yes":
      return value === true ? "yes" : "no";
    case "choice":
      return field.choices?.find((choice) => choice.value === value)?.label ?? String(value);
    case "rank":
      return Array.isArray(value) && value.length > 0 ? value.join(", then ") : "no ranked nodes";
    case "text":
      return String(value) || "–";
  }
}
