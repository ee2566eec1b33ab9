/** The options of a Kubernetes cluster as fields of a form, what the API takes of them, and back. */
import { readFields, textsOf, type OptionField, type Reading } from "./options";

export const SCHEDULERS = ["kueue", "volcano", "kai", "yunikorn"] as const;
export const WORKLOAD_KINDS = ["job", "jobset", "trainjob", "pytorchjob", "mpijob", "rayjob"] as const;
export type Registries = "all" | "listed" | "own";
export type Placing = "any" | "preferred" | "required";
export type Device = "gpu" | "cpu";

export interface KubernetesPoolFields {
  device: Device;
  placing: Placing;
  texts: Record<string, string>;
}

export interface KubernetesFields {
  isInCluster: boolean;
  scheduler: string;
  kind: string;
  isShared: boolean;
  refusesUnlabelled: boolean;
  registries: Registries;
  requiresDigest: boolean;
  texts: Record<string, string>;
  pools: readonly KubernetesPoolFields[];
}

export const KUBECONFIG_FIELDS: readonly OptionField[] = [
  {
    name: "kubeconfig",
    label: "Kubeconfig",
    help: "File with the portal's service account there. The operator lists it in TIDEGATE_KUBECONFIGS.",
    placeholder: "/etc/tidegate/kubeconfig",
    isRequired: true,
  },
  { name: "context", label: "Context", help: "Of the kubeconfig; its current one if empty." },
];

export const LOG_ROOT: OptionField = {
  name: "log_root",
  label: "Folder for outputs",
  help: "Where the portal keeps what the Pods wrote. Empty: outputs cannot be shown.",
  placeholder: "/var/lib/tidegate/kubernetes-logs",
};

export const ALLOWED: OptionField = {
  name: "allowed_registries",
  label: "Allowed registries",
  help: "Or beginnings of paths in them; spaces between them.",
  placeholder: "nvcr.io docker.io/pytorch",
  isRequired: true,
  isList: true,
};

export const MORE_FIELDS: readonly OptionField[] = [
  {
    name: "pull_secrets",
    label: "Pull secrets",
    help: "Names of Secrets in every team's namespace with which images are drawn; spaces between them.",
    isList: true,
  },
  {
    name: "service_account",
    label: "Service account of the Pods",
    help: "In every team's namespace; its token is never given to them. The namespace's own if empty.",
  },
  { name: "run_as_user", label: "User id of scripts", help: "1000 if empty; never 0.", isNumber: true },
  {
    name: "work_mib",
    label: "MiB of each rank's working directory",
    help: "102400 (100 GiB) if empty.",
    isNumber: true,
  },
  {
    name: "shared_memory_mib",
    label: "MiB of each rank's /dev/shm",
    help: "65536 (64 GiB) if empty, and never more than the rank's memory.",
    isNumber: true,
  },
  {
    name: "log_cap_bytes",
    label: "Bytes of each output that are kept",
    help: "16777216 (16 MiB) if empty.",
    isNumber: true,
  },
  { name: "ray_version", label: "Version of Ray", help: "In the images of RayJobs; not told if empty." },
];

/** Of Kueue alone: whose objects the cluster's admission policies treat in another way. */
export const ACCOUNT_FIELDS: readonly OptionField[] = [
  {
    name: "exempt",
    label: "Exempt accounts",
    help: "Service accounts whose objects need no queue, as in gate.yaml; spaces between them. None if empty.",
    placeholder: "system:serviceaccount:monitoring:agent",
    isList: true,
  },
  {
    name: "operators",
    label: "Accounts of operators",
    help: "Service accounts that make Jobs and Pods, as in gate.yaml; spaces between them. Those of the operators' own manifests if empty.",
    placeholder: "system:serviceaccount:kuberay-system:kuberay-operator",
    isList: true,
  },
];

/** Of the schedulers beside Kueue. */
export const QUEUE: OptionField = {
  name: "queue",
  label: "Queue",
  help: "Of all teams. Empty: each team has its own, named as its namespace.",
};

export const POOL_FIELDS: readonly OptionField[] = [
  { name: "pool", label: "Pool", help: "As it is called here.", isRequired: true },
  {
    name: "node_selector",
    label: "Labels of its nodes",
    help: "label=value, spaces between them.",
    placeholder: "nvidia.com/gpu.product=NVIDIA-H100-80GB-HBM3",
  },
  {
    name: "image",
    label: "Image",
    help: "Of jobs that name none. Empty: each job must name one.",
    placeholder: "nvcr.io/nvidia/pytorch:24.05-py3",
  },
];

const FLAVOR: OptionField = { name: "flavor", label: "Flavor", help: "Its ResourceFlavor; the pool's name if empty." };
const TOLERATIONS: OptionField = {
  name: "tolerations",
  label: "Tolerations",
  help: "As taints are written, key=value:Effect or key:Effect; spaces between them.",
  placeholder: "nvidia.com/gpu:NoSchedule",
  isList: true,
};
const RUNTIME_CLASS: OptionField = { name: "runtime_class", label: "Runtime class", help: "The cluster's own if empty." };

/** More of a pool of GPUs. */
export const MORE_POOL_FIELDS: readonly OptionField[] = [
  FLAVOR,
  { name: "resource", label: "Resource", help: "nvidia.com/gpu if empty; a MIG profile is another.", placeholder: "nvidia.com/gpu" },
  { name: "mgpu_per_unit", label: "Milli-GPU per unit", help: "Of that resource; 1000 if empty.", isNumber: true },
  { name: "device_class", label: "Device class", help: "GPUs are claimed from it (DRA) instead of the resource." },
  { name: "cpu_per_gpu", label: "Cores per GPU", help: "Empty: none are asked for.", isNumber: true },
  { name: "memory_mib_per_gpu", label: "MiB of memory per GPU", help: "Empty: none asked for, no limit.", isNumber: true },
  { name: "topology_name", label: "Topology", help: "With the levels beside it; empty: none." },
  {
    name: "topology_levels",
    label: "Levels of the topology",
    help: "Labels, widest first; spaces between them.",
    placeholder: "cloud.provider.com/topology-block kubernetes.io/hostname",
    isList: true,
  },
  {
    name: "topology_domains",
    label: "What jobs call them",
    help: "block=label, rack=label, nvlink=label. Empty: the first label is the block, the second the rack.",
    placeholder: "block=cloud.provider.com/topology-block",
  },
  TOLERATIONS,
  RUNTIME_CLASS,
];

/** More of a pool of CPU cores. */
export const MORE_CORES_FIELDS: readonly OptionField[] = [
  FLAVOR,
  { name: "memory_mib_per_core", label: "MiB of memory per core", help: "Empty: none asked for, no limit.", isNumber: true },
  {
    name: "reserved_cpu_milli",
    label: "Reserved milli-cores of each node",
    help: "For the node's own services, never offered to jobs; 0 if empty.",
    isNumber: true,
  },
  TOLERATIONS,
  RUNTIME_CLASS,
];

/** Where all ranks of a job are to be; asked for with `placing`. */
export const LEVEL: OptionField = {
  name: "level",
  label: "Level",
  help: "The label of nodes that all ranks share.",
  placeholder: "cloud.provider.com/topology-block",
  isRequired: true,
};

export const FEATURES_HELP =
  "What a feature of nodes is: feature=label or feature=label=value, one a line. Any other is the label feature.node.kubernetes.io/FEATURE.";

const TEXT_FIELDS = [...KUBECONFIG_FIELDS, LOG_ROOT, ...MORE_FIELDS, ...ACCOUNT_FIELDS, QUEUE, ALLOWED];
const TEXT_POOL_FIELDS = [...POOL_FIELDS, ...MORE_POOL_FIELDS, ...MORE_CORES_FIELDS, LEVEL];
/** Fields of the form that show what is wrong with them. */
export const SHOWN: readonly string[] = [...TEXT_FIELDS.map(({ name }) => name), "unlabelled", "pools", "features"];

export const NO_POOL: KubernetesPoolFields = { device: "gpu", placing: "any", texts: {} };
export const NO_FIELDS: KubernetesFields = {
  isInCluster: false,
  scheduler: "kueue",
  kind: "job",
  isShared: false,
  refusesUnlabelled: false,
  registries: "all",
  requiresDigest: false,
  texts: {},
  pools: [NO_POOL],
};

interface Toleration {
  key: string;
  operator?: string;
  value?: string;
  effect?: string;
}

/** "key=value:Effect", "key:Effect", "key=value" or "key", as `kubectl taint` writes them. */
function tolerationOf(text: string): Toleration {
  const [matched, effect] = /^(.*):([A-Za-z]+)$/.exec(text)?.slice(1) ?? [text, undefined];
  const [key = "", ...values] = (matched ?? "").split("=");
  return {
    key,
    operator: values.length === 0 ? "Exists" : "Equal",
    ...(values.length === 0 ? {} : { value: values.join("=") }),
    ...(effect === undefined ? {} : { effect }),
  };
}

function tolerationText({ key, operator = "Equal", value = "", effect }: Toleration): string {
  return key + (operator === "Exists" ? "" : `=${value}`) + (effect === undefined ? "" : `:${effect}`);
}

/** "label=value" words as an object; null when one is not so. */
function labelsOf(text: string): Record<string, string> | null {
  const labels: Record<string, string> = {};
  for (const word of text.split(/[\s,]+/).filter((each) => each !== "")) {
    const [label, ...value] = word.split("=");
    if (!label || value.length !== 1) return null;
    labels[label] = value[0] ?? "";
  }
  return labels;
}

function readPool({ device, placing, texts }: KubernetesPoolFields): { name: string; pool: Record<string, unknown>; problem?: string } {
  const name = (texts.pool ?? "").trim();
  const hasGpus = device === "gpu";
  const reading = readFields([...POOL_FIELDS.slice(2), ...(hasGpus ? MORE_POOL_FIELDS : MORE_CORES_FIELDS)], texts);
  const pool = reading.options;
  if (!hasGpus) pool.device = device;
  const [wrong] = Object.entries(reading.problems);
  let problem = wrong && `Pool ${name}: ${wrong[0].replaceAll("_", " ")} ${wrong[1]}.`;
  const selector = labelsOf(texts.node_selector ?? "");
  if (selector === null) problem = `Pool ${name}: write the labels of its nodes as label=value.`;
  else if (Object.keys(selector).length > 0) pool.node_selector = selector;
  delete pool.topology_domains;
  const domains = hasGpus ? labelsOf(texts.topology_domains ?? "") : {};
  if (domains === null) problem = `Pool ${name}: write what jobs call the levels as rack=label.`;
  else if (Object.keys(domains).length > 0) pool.topology_domains = domains;
  if (Array.isArray(pool.tolerations)) pool.tolerations = pool.tolerations.map(String).map(tolerationOf);
  if (hasGpus && placing !== "any") {
    const level = (texts.level ?? "").trim();
    if (level === "") problem = `Pool ${name}: name the level at which its jobs are kept together.`;
    pool[`${placing}_topology`] = level;
  }
  return { name, pool, problem };
}

/** The options; or by field what cannot be sent. The server checks the rest. */
export function readKubernetes(fields: KubernetesFields): Reading {
  const hasKueue = fields.scheduler === "kueue";
  const { options, problems } = readFields(
    [
      ...(fields.isInCluster ? [] : KUBECONFIG_FIELDS),
      LOG_ROOT,
      ...MORE_FIELDS,
      ...(hasKueue ? ACCOUNT_FIELDS : [QUEUE]),
      ...(fields.registries === "listed" ? [ALLOWED] : []),
    ],
    fields.texts,
  );
  if (fields.isInCluster) options.in_cluster = true;
  if (!hasKueue) options.scheduler = fields.scheduler;
  else {
    if (fields.kind !== "job") options.kind = fields.kind;
    if (fields.isShared) options.mode = "shared";
    if (fields.refusesUnlabelled) options.unlabelled = "refuse";
  }
  if (fields.registries === "own") options.allowed_registries = [];
  if (fields.requiresDigest) options.require_digest = true;
  const features: Record<string, string> = {};
  for (const line of (fields.texts.features ?? "").split("\n").map((each) => each.trim())) {
    if (line === "") continue;
    const [feature, ...label] = line.split("=");
    if (!feature || label.length === 0) problems.features = `${line}: write it as feature=label or feature=label=value.`;
    else features[feature.trim()] = label.join("=").trim();
  }
  if (Object.keys(features).length > 0) options.features = features;
  const pools: Record<string, unknown> = {};
  for (const each of fields.pools) {
    const { name, pool, problem } = readPool(each);
    if (name === "") problems.pools = "Each pool needs a name.";
    else if (name in pools) problems.pools = `Pool ${name} is there twice.`;
    else if (problem) problems.pools = problem;
    pools[name] = pool;
  }
  if (fields.pools.length === 0) problems.pools = "At least one pool is needed.";
  options.pools = pools;
  return { options, problems };
}

const asObject = (value: unknown): Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : {};

/** The fields that show these options. */
export function fieldsOf(options: Readonly<Record<string, unknown>>): KubernetesFields {
  const texts = textsOf(TEXT_FIELDS, options);
  texts.features = Object.entries(asObject(options.features))
    .map(([feature, label]) => `${feature}=${String(label)}`)
    .join("\n");
  const allowed = options.allowed_registries;
  return {
    isInCluster: options.in_cluster === true,
    scheduler: typeof options.scheduler === "string" ? options.scheduler : "kueue",
    kind: typeof options.kind === "string" ? options.kind : "job",
    isShared: options.mode === "shared",
    refusesUnlabelled: options.unlabelled === "refuse",
    registries: !Array.isArray(allowed) ? "all" : allowed.length === 0 ? "own" : "listed",
    requiresDigest: options.require_digest === true,
    texts,
    pools: Object.entries(asObject(options.pools)).map(([name, each]) => poolFieldsOf(name, asObject(each))),
  };
}

function poolFieldsOf(name: string, pool: Record<string, unknown>): KubernetesPoolFields {
  const placing = pool.required_topology ? "required" : pool.preferred_topology ? "preferred" : "any";
  const texts: Record<string, string> = { ...textsOf(TEXT_POOL_FIELDS, pool), pool: name };
  if (placing !== "any") texts.level = String(pool[`${placing}_topology`]);
  if (Array.isArray(pool.tolerations)) {
    texts.tolerations = pool.tolerations.map((each) => tolerationText(each as Toleration)).join(" ");
  }
  for (const option of ["node_selector", "topology_domains"]) {
    texts[option] = Object.entries(asObject(pool[option]))
      .map(([label, value]) => `${label}=${String(value)}`)
      .join(" ");
  }
  return { device: pool.device === "cpu" ? "cpu" : "gpu", placing, texts };
}
