import type { UseFormReturnType } from "@mantine/form";

import type { JobDetail, JobRequest } from "../api/types";
import { readAmount, UNITS } from "../budgets/amounts";
import { shellQuote } from "../ui/command";
import { utcOfLocal } from "../ui/localTime";
import { gpusToDecimal, parseGpus, readTimeLimit } from "../ui/units";

export const JOB_TYPES = ["training", "distributed", "interactive", "inference"] as const;
export const LEVELS = ["node", "nvlink", "rack", "block"] as const;
export const LAUNCHES = ["per_node", "batch"] as const;
export const NOTICE_SIGNALS = ["TERM", "INT", "HUP", "USR1", "USR2"] as const;

/** What is typed in the submit form, as text. */
export interface Draft {
  door: "form" | "sbatch" | "yaml";
  team: string | null;
  name: string;
  pool: string | null;
  /** Further pools that would do, the better ones first. */
  otherPools: string[];
  /** How the size is said: in GPUs, or of a pool of CPU cores in `nodes` and `cpus`. */
  shape: "total" | "per_node" | "cores";
  gpus: string;
  gpusPerNode: string;
  nodes: string;
  /** On each node; empty is what comes with its GPUs, and not allowed where it is the size. */
  cpus: string;
  memory: string;
  script: string;
  /** Of the script, one a line. */
  arguments: string;
  /** Those of a copied job, which may be empty or have several lines. They count while the text is unchanged. */
  copiedArguments: readonly string[];
  launch: (typeof LAUNCHES)[number];
  /** Where the script starts, and the files of its output beside the log. */
  folder: string;
  outputFile: string;
  errorFile: string;
  appendsOutput: boolean;
  /** What a batch job says about the tasks that its script starts. */
  tasks: string;
  tasksPerNode: string;
  cpusPerTask: string;
  gpusPerTask: string;
  sbatch: string;
  /** The file that the sbatch text came from, or "". */
  scriptFile: string;
  /** The members of the request, as YAML. */
  yaml: string;
  timeLimit: string;
  priorityClass: string | null;
  type: (typeof JOB_TYPES)[number] | null;
  environment: string;
  isPreemptible: boolean;
  isRequeueable: boolean;
  /** "time_limit" and exit codes, separated by commas or spaces. */
  requeueOn: string;
  /** How often those causes may requeue the job; "" is the default. */
  requeueMax: string;
  /** A charge in the organization's currency, such as "50". */
  costCap: string;
  checkpointPath: string;
  cluster: string | null;
  features: string[];
  image: string;
  together: (typeof LEVELS)[number] | null;
  mustBeTogether: boolean;
  noticeSignal: (typeof NOTICE_SIGNALS)[number] | null;
  signalAhead: string;
  signalsShellOnly: boolean;
  isHeld: boolean;
  /** As a datetime-local field has it: in the zone of this browser. */
  beginAt: string;
  dependsOn: string;
  isSingleton: boolean;
  array: string;
}

export type DraftForm = UseFormReturnType<Draft>;

export const MAX_FEATURES = 16;
export const MAX_OTHER_POOLS = 3;
export const MAX_SCRIPT_BYTES = 1024 * 1024;

export function emptyDraft(): Draft {
  return {
    door: "form",
    team: null,
    name: "",
    pool: null,
    otherPools: [],
    shape: "total",
    gpus: "1",
    gpusPerNode: "1",
    nodes: "1",
    cpus: "",
    memory: "",
    script: "#!/bin/bash\n",
    arguments: "",
    copiedArguments: [],
    launch: "per_node",
    folder: "",
    outputFile: "",
    errorFile: "",
    appendsOutput: false,
    tasks: "",
    tasksPerNode: "",
    cpusPerTask: "",
    gpusPerTask: "",
    sbatch: "",
    scriptFile: "",
    yaml: "",
    timeLimit: "",
    priorityClass: null,
    type: null,
    environment: "",
    isPreemptible: false,
    isRequeueable: true,
    requeueOn: "",
    requeueMax: "",
    costCap: "",
    checkpointPath: "",
    cluster: null,
    features: [],
    image: "",
    together: null,
    mustBeTogether: false,
    noticeSignal: null,
    signalAhead: "",
    signalsShellOnly: false,
    isHeld: false,
    beginAt: "",
    dependsOn: "",
    isSingleton: false,
    array: "",
  };
}

/** The ends after which a job is queued again, as they were typed. */
function causesOf(text: string): string[] {
  return text.split(/[\s,]+/).filter((cause) => cause !== "");
}

/** The same request as an earlier job's, to change and send again. */
export function draftOf(job: JobDetail): Draft {
  return {
    ...emptyDraft(),
    team: job.team,
    name: job.array === null ? job.name : job.name.replace(/\[\d+\]$/, ""),
    pool: job.pools[0] ?? job.pool,
    otherPools: job.pools.slice(1),
    shape: job.device === "cpu" ? "cores" : job.node_count > 1 ? "per_node" : "total",
    gpus: spanText(gpusToDecimal(job.mgpu_min), gpusToDecimal(job.mgpu)),
    gpusPerNode: gpusToDecimal(job.mgpu_per_node),
    nodes: spanText(String(job.node_count_min), String(job.node_count)),
    cpus: countText(job.cpus_per_node),
    memory: job.memory_mib_per_node === null ? "" : memoryText(job.memory_mib_per_node),
    script: job.script ?? "#!/bin/bash\n",
    arguments: job.arguments.join("\n"),
    copiedArguments: job.arguments,
    // A manifest says itself what it is; its whole text stands in the second door.
    launch: job.launch === "batch" ? "batch" : "per_node",
    ...(job.launch === "manifest" ? { door: "sbatch" as const, sbatch: job.script ?? "" } : {}),
    folder: job.folder ?? "",
    outputFile: job.output_file ?? "",
    errorFile: job.error_file ?? "",
    appendsOutput: job.appends_output,
    tasks: countText(job.ntasks),
    tasksPerNode: countText(job.ntasks_per_node),
    cpusPerTask: countText(job.cpus_per_task),
    gpusPerTask: countText(job.gpus_per_task),
    timeLimit: job.time_limit_s === null ? "" : limitText(job.time_limit_s),
    priorityClass: job.priority_class,
    type: JOB_TYPES.find((each) => each === job.type) ?? null,
    array: job.array === null ? "" : String(job.array.index),
    environment: Object.entries(job.environment ?? {})
      .map(([name, value]) => `${name}=${value}`)
      .join("\n"),
    isPreemptible: job.is_preemptible,
    isRequeueable: job.is_requeueable,
    requeueOn: job.requeue_on.join(", "),
    requeueMax: job.requeue_on.length === 0 ? "" : String(job.requeue_max),
    costCap: job.cost_cap_nano === null ? "" : String(job.cost_cap_nano / UNITS.money),
    checkpointPath: job.checkpoint_path ?? "",
    cluster: job.cluster,
    dependsOn: job.depends_on
      .flatMap(({ job: id, array, condition }) => {
        const named = id ?? (array === null ? null : `array ${array}`);
        if (named === null) return [];
        return [condition === "succeeded" ? named : `${condition} ${named}`];
      })
      .join("\n"),
    isSingleton: job.is_singleton,
    features: job.features,
    image: job.image ?? "",
    together: job.required_topology ?? job.preferred_topology,
    mustBeTogether: job.required_topology !== null,
    noticeSignal: job.notice_signal === "TERM" ? null : job.notice_signal,
    signalAhead: job.signal_ahead_s === null ? "" : limitText(job.signal_ahead_s),
    signalsShellOnly: job.signals_shell_only,
  };
}

function countText(count: number | null): string {
  return count === null ? "" : String(count);
}

const LIMIT_UNITS = [
  ["d", 86_400],
  ["h", 3600],
  ["m", 60],
] as const;

/** A time limit as people type it, in the largest unit that says it exactly: "3d", "90m". */
export function limitText(seconds: number): string {
  const [unit, size] = LIMIT_UNITS.find(([, size]) => seconds % size === 0) ?? ["s", 1];
  return `${seconds / size}${unit}`;
}

/** A figure, or two of an elastic job: "4..16". */
export function spanText(least: string, most: string): string {
  return least === most ? most : `${least}..${most}`;
}

/** The two sides of "4..16"; least is null where only one figure is given. */
export function span(text: string): { least: string | null; most: string } {
  const [first = "", second, ...rest] = text.split("..");
  if (second === undefined) return { least: null, most: first };
  return { least: first, most: rest.length > 0 ? "" : second };
}

/** A count of nodes, or null. */
function parseNodes(text: string): number | null {
  return /^[1-9]\d{0,5}$/.test(text.trim()) ? Number(text.trim()) : null;
}

const MIB_SHIFTS = { M: 1, G: 1024, T: 1024 * 1024 } as const;

/** MiB as people type them: "64G". */
export function memoryText(mib: number): string {
  return mib % 1024 === 0 ? `${mib / 1024}G` : `${mib}M`;
}

/** The MiB in "512M", "64G", "1T" or a plain number of MiB, or null. */
function parseMemory(text: string): number | null {
  const found = /^([1-9]\d{0,8})([MGT]?)$/i.exec(text.trim());
  if (found === null) return null;
  return Number(found[1]) * MIB_SHIFTS[(found[2] || "M").toUpperCase() as keyof typeof MIB_SHIFTS];
}

export type DraftErrors = Partial<Record<keyof Draft, string>>;

/** NAME=VALUE lines. Empty lines and lines that begin with # are left out. */
export function parseEnvironment(text: string): { environment: Record<string, string>; error?: string } {
  const environment: Record<string, string> = {};
  for (const [i, line] of text.split("\n").entries()) {
    if (line.trim() === "" || line.trimStart().startsWith("#")) continue;
    const match = /^([A-Za-z_][A-Za-z0-9_]*)=(.*)$/.exec(line);
    if (match?.[1] === undefined) {
      return { environment, error: `Line ${i + 1} is not NAME=VALUE.` };
    }
    environment[match[1]] = match[2] ?? "";
  }
  return { environment };
}

const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
const CONDITIONS = ["succeeded", "ended", "failed"] as const;
type Wish = NonNullable<JobRequest["depends_on"]>[number];

/** Jobs to wait for, one a line: an id, and before it a condition or "array" for the id of one. */
export function parseDependencies(text: string): { dependencies: Wish[]; error?: string } {
  const dependencies: Wish[] = [];
  for (const [i, line] of text.split("\n").entries()) {
    const match = /^(?:(succeeded|ended|failed)\s+)?(array\s+)?(\S+)$/.exec(line.trim());
    if (line.trim() === "") continue;
    const id = match?.[3] ?? "";
    if (match === null || !UUID.test(id)) {
      return { dependencies, error: `Line ${i + 1} is neither a job's id nor succeeded, ended or failed and an id.` };
    }
    const condition = CONDITIONS.find((each) => each === match[1]) ?? "succeeded";
    dependencies.push(match[2] === undefined ? { job: id, condition } : { array: id, condition });
  }
  return { dependencies };
}

export const MAX_TASKS = 1000;
const MAX_INDEX = 1_000_000;

/** How many tasks an array has and how many of them run at once, or what is wrong with its text. */
export function parseArray(text: string): { size: number; atOnce: number | null } | { error: string } {
  const [listed = "", limit, ...rest] = text.trim().split("%");
  const indices = new Set<number>();
  for (const part of listed.split(",")) {
    const match = /^(\d{1,9})(?:-(\d{1,9})(?::(\d{1,9}))?)?$/.exec(part);
    const first = Number(match?.[1]);
    const last = match?.[2] === undefined ? first : Number(match[2]);
    const step = match?.[3] === undefined ? 1 : Number(match[3]);
    if (match === null || last < first || step < 1) return { error: "Indices such as 0-9, 1,3,5-7 or 0-31:4." };
    if (last > MAX_INDEX) return { error: "The largest index is 1,000,000." };
    for (let index = first; index <= last && indices.size <= MAX_TASKS; index += step) indices.add(index);
  }
  if (indices.size > MAX_TASKS) return { error: "An array has at most 1,000 tasks." };
  if (limit !== undefined && (rest.length > 0 || !/^[1-9]\d{0,8}$/.test(limit))) {
    return { error: "After % comes how many may run at once, at least 1." };
  }
  return { size: indices.size, atOnce: limit === undefined ? null : Number(limit) };
}

/** Whether a text is a Kubernetes manifest: every object has this field at its top, in YAML or JSON. */
export function isManifest(text: string): boolean {
  return !text.startsWith("#!") && /^(?:apiVersion|[ \t{]*"apiVersion")[ \t]*:/m.test(text);
}

/** Whether a manifest is a CronJob, whose runs are jobs of a schedule. */
export function isCronJob(manifest: string | undefined): boolean {
  return manifest !== undefined && /^kind:[ \t]*["']?CronJob\b|"kind"\s*:\s*"CronJob"/m.test(manifest);
}

/** Whether the draft is a manifest, beside which its place, class and limit are asked for. */
function isManifestDraft(draft: Draft): boolean {
  return draft.door === "sbatch" && isManifest(draft.sbatch);
}

/** The request to send, or what is wrong with which field. Only what was filled in is sent. */
export function readDraft(draft: Draft): { request: JobRequest | null; errors: DraftErrors } {
  const errors: DraftErrors = {};
  const request: JobRequest = { team: draft.team ?? "" };
  if (draft.team === null) errors.team = "Choose the team that the job runs for.";
  const script = draft.door === "form" ? draft.script : draft.sbatch;
  const field = draft.door === "form" ? "script" : "sbatch";
  if (script.trim() === "") errors[field] = "There is no script yet.";
  else if (new TextEncoder().encode(script).length > MAX_SCRIPT_BYTES) {
    errors[field] = "A script may have at most 1 MiB. Put data into files and read them from the script.";
  }
  request[field === "sbatch" && isManifest(script) ? "manifest" : field] = script;
  if (request.sbatch !== undefined && draft.scriptFile !== "") request.script_file = draft.scriptFile;
  const words = argumentsOf(draft);
  if (words.length > 0) request.arguments = words;

  const wholeForm = draft.door === "form";
  if (wholeForm || isManifestDraft(draft)) {
    if (draft.timeLimit.trim() !== "") {
      const limit = readTimeLimit(draft.timeLimit);
      if ("error" in limit) errors.timeLimit = limit.error;
      else if (limit.seconds === 0) errors.timeLimit = "At least 1s.";
      else request.time_limit_s = limit.seconds;
    }
    const others = draft.otherPools.filter((other) => other !== draft.pool);
    if (draft.pool === null) {
      if (others.length > 0) errors.pool = "Choose the pool that it would like best, too.";
    } else if (others.length > 0) request.pools = [draft.pool, ...others];
    else request.pool = draft.pool;
    if (draft.priorityClass !== null) request.priority_class = draft.priorityClass;
    if (draft.cluster !== null) request.cluster = draft.cluster;
  }
  if (wholeForm) {
    if (draft.shape === "total") {
      const { least, most } = span(draft.gpus);
      const mgpu = parseGpus(most);
      const leastMgpu = least === null ? mgpu : parseGpus(least);
      if (!mgpu || !leastMgpu) errors.gpus = "A number of GPUs, such as 8 or 0.5, or 4..16.";
      else {
        request.gpus = Number(gpusToDecimal(mgpu));
        if (least !== null) request.gpus_min = Number(gpusToDecimal(leastMgpu));
      }
    } else {
      if (draft.shape === "per_node") {
        const mgpu = parseGpus(draft.gpusPerNode);
        if (mgpu === null || mgpu === 0) errors.gpusPerNode = "A number of GPUs, such as 8.";
        else request.gpus_per_node = Number(gpusToDecimal(mgpu));
      }
      const { least, most } = span(draft.nodes);
      const nodes = parseNodes(most);
      const leastNodes = least === null ? nodes : parseNodes(least);
      if (nodes === null || leastNodes === null) errors.nodes = "A whole number, at least 1, or 2..8.";
      else {
        request.nodes = nodes;
        if (least !== null) request.nodes_min = leastNodes;
      }
    }
    if (draft.cpus.trim() !== "" || draft.shape === "cores") {
      const cpus = parseNodes(draft.cpus);
      if (cpus === null) errors.cpus = "A whole number, at least 1.";
      else request.cpus_per_node = cpus;
    }
    if (draft.memory.trim() !== "") {
      const mib = parseMemory(draft.memory);
      if (mib === null) errors.memory = "Such as 512M, 64G or 1T.";
      else request.memory_mib_per_node = mib;
    }
    if (draft.launch === "batch") {
      request.launch = "batch";
      for (const [field, member] of TASK_COUNTS) {
        if (draft[field].trim() === "") continue;
        const count = parseNodes(draft[field]);
        if (count === null) errors[field] = "A whole number, at least 1.";
        else request[member] = count;
      }
    }
    if (draft.type !== null) request.type = draft.type;
    if (draft.name.trim() !== "") request.name = draft.name.trim();
    const { environment, error } = parseEnvironment(draft.environment);
    if (error !== undefined) errors.environment = error;
    else if (Object.keys(environment).length > 0) request.environment = environment;
    if (draft.isPreemptible) request.is_preemptible = true;
    if (!draft.isRequeueable) request.is_requeueable = false;
    const requeueOn = causesOf(draft.requeueOn);
    if (requeueOn.length > 0) request.requeue_on = requeueOn;
    if (requeueOn.length > 0 && draft.requeueMax.trim() !== "") {
      const most = parseNodes(draft.requeueMax);
      if (most === null) errors.requeueMax = "A whole number, at least 1.";
      else request.requeue_max = most;
    }
    if (draft.costCap.trim() !== "") {
      const cap = readAmount(draft.costCap, "money");
      if (cap === null) errors.costCap = "A number above 0, such as 50.";
      else request.cost_cap_nano = cap;
    }
    if (draft.checkpointPath.trim() !== "") request.checkpoint_path = draft.checkpointPath.trim();
    for (const [field, member] of OWN_FILES) {
      if (draft[field].trim() !== "") request[member] = draft[field].trim();
    }
    if (draft.appendsOutput) request.appends_output = true;
    if (draft.isSingleton) request.is_singleton = true;
    if (draft.features.length > 0) request.features = draft.features;
    if (draft.image.trim() !== "") request.image = draft.image.trim();
    if (draft.together !== null && draft.mustBeTogether) request.required_topology = draft.together;
    else if (draft.together !== null) request.preferred_topology = draft.together;
    if (draft.noticeSignal !== null) request.notice_signal = draft.noticeSignal;
    if (draft.signalAhead.trim() !== "") {
      const ahead = readTimeLimit(draft.signalAhead);
      if ("error" in ahead) errors.signalAhead = ahead.error;
      else request.signal_ahead_s = ahead.seconds;
    }
    if (draft.signalsShellOnly) request.signals_shell_only = true;
    if (draft.isHeld) request.held = true;
    if (draft.beginAt !== "") {
      const beginAt = utcOfLocal(draft.beginAt);
      if (beginAt === null) errors.beginAt = "A day and a time.";
      else request.begin_at = beginAt;
    }
    if (draft.array.trim() !== "") {
      const shape = parseArray(draft.array);
      if ("error" in shape) errors.array = shape.error;
      else request.array = draft.array.trim();
    }
    const waits = parseDependencies(draft.dependsOn);
    if (waits.error !== undefined) errors.dependsOn = waits.error;
    else if (waits.dependencies.length > 0) request.depends_on = waits.dependencies;
  }
  return { request: Object.keys(errors).length === 0 ? request : null, errors };
}

const TASK_COUNTS = [
  ["tasks", "ntasks"],
  ["tasksPerNode", "ntasks_per_node"],
  ["cpusPerTask", "cpus_per_task"],
  ["gpusPerTask", "gpus_per_task"],
] as const;

const OWN_FILES = [
  ["folder", "folder"],
  ["outputFile", "output_file"],
  ["errorFile", "error_file"],
] as const;

const FIELD_OF_POINTER: Record<string, keyof Draft> = {
  team: "team",
  name: "name",
  pool: "pool",
  pools: "otherPools",
  gpus: "gpus",
  gpus_min: "gpus",
  gpus_per_node: "gpusPerNode",
  nodes: "nodes",
  nodes_min: "nodes",
  cpus_per_node: "cpus",
  memory_mib_per_node: "memory",
  script: "script",
  arguments: "arguments",
  launch: "launch",
  folder: "folder",
  output_file: "outputFile",
  error_file: "errorFile",
  appends_output: "appendsOutput",
  ntasks: "tasks",
  ntasks_per_node: "tasksPerNode",
  cpus_per_task: "cpusPerTask",
  gpus_per_task: "gpusPerTask",
  sbatch: "sbatch",
  manifest: "sbatch",
  time_limit_s: "timeLimit",
  priority_class: "priorityClass",
  type: "type",
  environment: "environment",
  is_preemptible: "isPreemptible",
  is_requeueable: "isRequeueable",
  requeue_on: "requeueOn",
  requeue_max: "requeueMax",
  cost_cap_nano: "costCap",
  checkpoint_path: "checkpointPath",
  cluster: "cluster",
  features: "features",
  image: "image",
  required_topology: "together",
  preferred_topology: "together",
  notice_signal: "noticeSignal",
  signal_ahead_s: "signalAhead",
  signals_shell_only: "signalsShellOnly",
  held: "isHeld",
  begin_at: "beginAt",
  depends_on: "dependsOn",
  is_singleton: "isSingleton",
  array: "array",
};

/** The notice as Slurm and the CLI write it, such as "B:USR1@300"; null for the default. */
function noticeText({ noticeSignal, signalAhead, signalsShellOnly }: Draft): string | null {
  const ahead = readTimeLimit(signalAhead);
  const seconds = signalAhead.trim() === "" || "error" in ahead ? "" : `@${ahead.seconds}`;
  if (noticeSignal === null && seconds === "" && !signalsShellOnly) return null;
  return `${signalsShellOnly ? "B:" : ""}${noticeSignal ?? "TERM"}${seconds}`;
}

/** The arguments of the script; empty lines are none, and a manifest has none. */
function argumentsOf(draft: Draft): string[] {
  if (isManifestDraft(draft)) return [];
  if (draft.copiedArguments.join("\n") === draft.arguments) return [...draft.copiedArguments];
  return draft.arguments.split("\n").filter((line) => line !== "");
}

/** The fields that are shown beside a manifest. */
const BESIDE_MANIFEST: readonly (keyof Draft)[] = ["pool", "priorityClass", "timeLimit", "cluster"];

/** Puts the API's refusals at the fields they are about; what has no field is returned apart. */
export function placeRefusals(
  fieldErrors: Readonly<Record<string, string>>,
  draft: Draft,
): { errors: DraftErrors; others: string[] } {
  const errors: DraftErrors = {};
  const others: string[] = [];
  for (const [given, detail] of Object.entries(fieldErrors)) {
    // A schedule has the request of its runs as a member.
    const pointer = given.replace(/^request\//, "");
    // What is wrong with one of several names is told at the field that holds them all.
    let field = FIELD_OF_POINTER[pointer] ?? FIELD_OF_POINTER[/^(features|pools)\/\d+$/.exec(pointer)?.[1] ?? ""];
    const isBeside = isManifestDraft(draft) && field !== undefined && BESIDE_MANIFEST.includes(field);
    if (draft.door === "yaml") {
      const label = given.replace(/^request\//, "");
      errors.yaml = `${errors.yaml === undefined ? "" : `${errors.yaml}; `}${label}: ${detail}`;
      continue;
    }
    if (draft.door === "sbatch" && field !== "team" && field !== "arguments" && !isBeside) field = "sbatch";
    else if (field === "gpus" && draft.shape === "per_node") field = "gpusPerNode";
    else if ((field === "gpus" || field === "gpusPerNode") && draft.shape === "cores") field = "cpus";
    if (field === undefined) others.push(detail);
    else errors[field] = field in errors ? `${errors[field] ?? ""} ${detail}` : detail;
  }
  return { errors, others };
}

/** A key that is new for every submission that a person means, and the same for its repeats. */
export function newIdempotencyKey(): string {
  // randomUUID is missing where the page is not served from a secure origin.
  if (typeof crypto.randomUUID === "function") return crypto.randomUUID();
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** The command that submits the same. `team` is that of the request, `template` the name of one. */
export function submitCommand(
  draft: Draft,
  team: string | null = draft.team,
  template: string | null = null,
): string {
  if (draft.door === "yaml") {
    const isInText = /^team[ \t]*:/m.test(draft.yaml);
    const ofTemplate = template === null ? "" : `--template ${shellQuote(template)} `;
    return `tidegate submit ${isInText || team === null ? "" : `--team ${shellQuote(team)} `}${ofTemplate}job.yaml`;
  }
  const parts = ["tidegate submit"];
  const option = (name: string, value: string | null) => {
    if (value !== null && value.trim() !== "") parts.push(`--${name} ${shellQuote(value.trim())}`);
  };
  option("team", draft.team);
  option("template", template);
  if (draft.door === "form") option("name", draft.name);
  if (draft.door === "form" || isManifestDraft(draft)) {
    option("pool", draft.pool === null ? null : [...new Set([draft.pool, ...draft.otherPools])].join(","));
    option("time", draft.timeLimit);
    option("class", draft.priorityClass);
    option("cluster", draft.cluster);
  }
  if (draft.door === "form") {
    if (draft.shape === "total") option("gpus", draft.gpus);
    else {
      if (draft.shape === "per_node") option("gpus-per-node", draft.gpusPerNode);
      option("nodes", draft.nodes);
    }
    option("cpus-per-node", draft.cpus);
    option("memory-per-node", draft.memory);
    if (draft.launch === "batch") {
      option("launch", "batch");
      for (const [field, member] of TASK_COUNTS) option(member.replaceAll("_", "-"), draft[field]);
    }
    option("chdir", draft.folder);
    option("output-file", draft.outputFile);
    option("error-file", draft.errorFile);
    if (draft.appendsOutput) parts.push("--append-output");
    for (const [name, value] of Object.entries(parseEnvironment(draft.environment).environment)) {
      option("env", `${name}=${value}`);
    }
    option("checkpoint", draft.checkpointPath);
    for (const feature of draft.features) option("feature", feature);
    option("image", draft.image);
    option(draft.mustBeTogether ? "required-topology" : "preferred-topology", draft.together);
    option("signal", noticeText(draft));
    if (draft.isPreemptible) parts.push("--preemptible");
    if (!draft.isRequeueable) parts.push("--no-requeue");
    const causes = causesOf(draft.requeueOn);
    for (const cause of causes) option("requeue-on", cause);
    if (causes.length > 0) option("requeue-max", draft.requeueMax.trim());
    option("cost-cap", draft.costCap.trim());
    if (draft.isHeld) parts.push("--hold");
    option("begin", utcOfLocal(draft.beginAt));
    for (const { job, array, condition } of parseDependencies(draft.dependsOn).dependencies) {
      option({ succeeded: "after-ok", ended: "after-any", failed: "after-not-ok" }[condition], job ?? array ?? null);
    }
    if (draft.isSingleton) parts.push("--singleton");
    option("array", draft.array);
  }
  const file = isManifest(draft.sbatch) ? "job.yaml" : "job.sbatch";
  // A template may have the script.
  const hasText = (draft.door === "form" ? draft.script : draft.sbatch) !== "";
  if (hasText || template === null) parts.push(draft.door === "form" ? "job.sh" : shellQuote(draft.scriptFile || file));
  const words = argumentsOf(draft);
  if (words.length > 0) parts.push("--", ...words.map(shellQuote));
  return parts.join(" ");
}
