import type { JobRequest, JobTemplate } from "../api/types";
import { UNITS } from "../budgets/amounts";
import { emptyDraft, JOB_TYPES, limitText, memoryText, spanText, type Draft } from "./draft";

/** The fields in which each member of a request is typed. */
const FIELDS: Partial<Record<keyof JobRequest, readonly (keyof Draft)[]>> = {
  name: ["name"],
  pool: ["pool", "otherPools"],
  pools: ["pool", "otherPools"],
  gpus: ["shape", "gpus"],
  gpus_min: ["shape", "gpus"],
  gpus_per_node: ["shape", "gpusPerNode"],
  nodes: ["shape", "nodes"],
  nodes_min: ["shape", "nodes"],
  cpus_per_node: ["cpus"],
  memory_mib_per_node: ["memory"],
  script: ["script"],
  sbatch: ["sbatch"],
  manifest: ["sbatch"],
  arguments: ["arguments"],
  launch: ["launch"],
  folder: ["folder"],
  output_file: ["outputFile"],
  error_file: ["errorFile"],
  appends_output: ["appendsOutput"],
  ntasks: ["tasks"],
  ntasks_per_node: ["tasksPerNode"],
  cpus_per_task: ["cpusPerTask"],
  gpus_per_task: ["gpusPerTask"],
  time_limit: ["timeLimit"],
  time_limit_s: ["timeLimit"],
  priority_class: ["priorityClass"],
  type: ["type"],
  environment: ["environment"],
  is_preemptible: ["isPreemptible"],
  is_requeueable: ["isRequeueable"],
  requeue_on: ["requeueOn"],
  requeue_max: ["requeueMax"],
  cost_cap_nano: ["costCap"],
  checkpoint_path: ["checkpointPath"],
  cluster: ["cluster"],
  features: ["features"],
  image: ["image"],
  required_topology: ["together", "mustBeTogether"],
  preferred_topology: ["together", "mustBeTogether"],
  notice_signal: ["noticeSignal"],
  signal_ahead_s: ["signalAhead"],
  signals_shell_only: ["signalsShellOnly"],
  held: ["isHeld"],
  is_singleton: ["isSingleton"],
  array: ["array"],
};

/** Members that mean the same as another one, in other terms. */
const SAME: readonly (readonly (keyof JobRequest)[])[] = [
  ["pool", "pools"],
  ["gpus", "gpus_min", "gpus_per_node"],
  ["nodes", "nodes_min"],
  ["time_limit", "time_limit_s"],
  ["script", "sbatch", "manifest", "script_file"],
  ["required_topology", "preferred_topology"],
];

function text(value: string | number | null | undefined): string {
  return value === null || value === undefined ? "" : String(value);
}

/** A draft that asks for the members of a request, and for what `draft` says beside them. */
export function withMembers(draft: Draft, request: Partial<JobRequest>): Draft {
  const whole = request.manifest ?? request.sbatch;
  const typed: Partial<Draft> = {
    door: whole === undefined ? "form" : "sbatch",
    name: text(request.name),
    pool: request.pool ?? request.pools?.[0] ?? null,
    otherPools: request.pools?.slice(1) ?? [],
    shape:
      request.gpus_per_node !== undefined || (request.gpus === undefined && request.nodes !== undefined)
        ? "per_node"
        : request.gpus === undefined && request.cpus_per_node !== undefined
          ? "cores"
          : "total",
    gpus: spanText(text(request.gpus_min ?? request.gpus), text(request.gpus)) || draft.gpus,
    gpusPerNode: text(request.gpus_per_node) || draft.gpusPerNode,
    nodes: spanText(text(request.nodes_min ?? request.nodes), text(request.nodes)) || draft.nodes,
    cpus: text(request.cpus_per_node),
    memory: request.memory_mib_per_node === undefined ? "" : memoryText(request.memory_mib_per_node),
    script: request.script ?? draft.script,
    sbatch: whole ?? "",
    arguments: (request.arguments ?? []).join("\n"),
    copiedArguments: request.arguments ?? [],
    launch: request.launch === "batch" ? "batch" : "per_node",
    folder: text(request.folder),
    outputFile: text(request.output_file),
    errorFile: text(request.error_file),
    appendsOutput: request.appends_output ?? false,
    tasks: text(request.ntasks),
    tasksPerNode: text(request.ntasks_per_node),
    cpusPerTask: text(request.cpus_per_task),
    gpusPerTask: text(request.gpus_per_task),
    timeLimit: request.time_limit ?? (request.time_limit_s === undefined ? "" : limitText(request.time_limit_s)),
    priorityClass: request.priority_class ?? null,
    type: JOB_TYPES.find((each) => each === request.type) ?? null,
    environment: Object.entries(request.environment ?? {})
      .map(([name, value]) => `${name}=${value}`)
      .join("\n"),
    isPreemptible: request.is_preemptible ?? false,
    isRequeueable: request.is_requeueable ?? true,
    requeueOn: (request.requeue_on ?? []).join(", "),
    requeueMax: text(request.requeue_max),
    costCap: request.cost_cap_nano === undefined ? "" : String(request.cost_cap_nano / UNITS.money),
    checkpointPath: text(request.checkpoint_path),
    cluster: request.cluster ?? null,
    features: request.features ?? [],
    image: text(request.image),
    together: request.required_topology ?? request.preferred_topology ?? null,
    mustBeTogether: request.required_topology !== undefined,
    noticeSignal: request.notice_signal ?? null,
    signalAhead: request.signal_ahead_s === undefined ? "" : limitText(request.signal_ahead_s),
    signalsShellOnly: request.signals_shell_only ?? false,
    isHeld: request.held ?? false,
    isSingleton: request.is_singleton ?? false,
    array: text(request.array),
  };
  return { ...draft, ...typed };
}

/** The fields that a template locks. */
export function lockedFields(template: JobTemplate | null): ReadonlySet<keyof Draft> {
  const locked = (template?.locked ?? []) as (keyof JobRequest)[];
  return new Set(locked.flatMap((member) => FIELDS[member] ?? []));
}

/** What is sent from a template: its id, and the members that it leaves free. */
export function fromTemplate(request: JobRequest, template: JobTemplate): JobRequest {
  const locked = new Set<string>(template.locked);
  for (const group of SAME) {
    if (group.some((member) => locked.has(member))) for (const member of group) locked.add(member);
  }
  const free = Object.entries(request).filter(([member]) => !locked.has(member));
  return { ...(Object.fromEntries(free) as JobRequest), template: template.id };
}

/** A draft without what a template locks, for the command that submits from it. */
export function withoutLocked(draft: Draft, locked: ReadonlySet<keyof Draft>): Draft {
  const blank = { ...emptyDraft(), gpus: "", gpusPerNode: "", nodes: "", script: "", shape: draft.shape };
  const fields = [...locked].map((field) => [field, blank[field]] as const);
  return { ...draft, ...Object.fromEntries(fields) };
}
