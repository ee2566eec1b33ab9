/**
 * The worked example's story, made up at the moment of asking: production holds 700 GPUs of its
 * 400, exploration its 200, vision 100 of 120, and nlp's gang of 200 waits for reclaim.
 */
import type {
  AcceptedDifference,
  Attempt,
  Chargeback,
  Cluster,
  ClusterNode,
  ClusterUser,
  Explanation,
  HistoryEvent,
  Job,
  JobDetail,
  JobReason,
  Placement,
  Pool,
  PriorityClass,
  Quota,
  QuotaPush,
  Session,
  Token,
  TreeNode,
} from "../src/api/types";

const GPU = 1000;

export function iso(ms: number): string {
  return new Date(ms).toISOString().replace(/\.\d{3}Z$/, "Z");
}

function uuid(n: number): string {
  return `01935000-0000-7000-8000-${n.toString(16).padStart(12, "0")}`;
}

export const ORGANIZATION = "ai-company";

export function aSession(change: Partial<Session> = {}): Session {
  return {
    user: {
      id: uuid(1),
      login: "ai-company/ana",
      username: "ana",
      name: "Ana Lima",
      kind: "person",
      organization: { id: uuid(2), slug: ORGANIZATION, name: "AI Company" },
    },
    grants: [{ role: "organization_admin", node_path: ORGANIZATION }],
    permissions: {
      [ORGANIZATION]: [
        "view_tree",
        "view_jobs",
        "view_job_content",
        "submit_jobs",
        "manage_jobs",
        "manage_quota",
        "view_costs",
      ],
    },
    csrf_token: "csrf-of-the-session",
    features: { version: "0.1.0" },
    ...change,
  };
}

function aNode(n: number, kind: TreeNode["kind"], path: string): TreeNode {
  const parts = path.split("/");
  const slug = parts.at(-1) ?? path;
  return {
    id: uuid(100 + n),
    kind,
    slug,
    name: slug === ORGANIZATION ? "AI Company" : slug,
    path,
    parent: parts.length > 1 ? parts.slice(0, -1).join("/") : null,
    organization: ORGANIZATION,
    depth: parts.length - 1,
  };
}

export const TREE: readonly TreeNode[] = [
  aNode(0, "organization", "ai-company"),
  aNode(1, "department", "ai-company/production"),
  aNode(2, "team", "ai-company/production/inference"),
  aNode(3, "team", "ai-company/production/training"),
  aNode(4, "department", "ai-company/research"),
  aNode(5, "team", "ai-company/research/nlp"),
  aNode(6, "team", "ai-company/research/vision"),
  aNode(7, "team", "ai-company/research/speech"),
  aNode(8, "department", "ai-company/exploration"),
  aNode(9, "team", "ai-company/exploration/sandbox"),
];

interface UseOf {
  inUse: number;
  protectedGpus?: number;
  lent?: number;
  available?: number;
  waiting?: number;
}

/** A quota in GPUs. */
export function aQuota(
  node: string,
  guaranteed: number,
  use: UseOf = { inUse: 0 },
  change: Partial<Quota> = {},
): Quota {
  const known = TREE.find((each) => each.path === node);
  const inside = use.protectedGpus ?? Math.min(use.inUse, guaranteed);
  return {
    id: uuid(500 + TREE.findIndex((each) => each.path === node)),
    node,
    node_kind: known?.kind ?? "team",
    node_name: known?.name ?? node.split("/").at(-1) ?? node,
    parent: known?.parent ?? null,
    pool: "h100",
    guaranteed_mgpu: guaranteed * GPU,
    guaranteed_percent: null,
    borrow_limit_mgpu: null,
    lend_limit_mgpu: null,
    weight: 1,
    version: 3,
    reserve_mgpu: 0,
    use: {
      in_use_mgpu: use.inUse * GPU,
      protected_mgpu: inside * GPU,
      borrowed_mgpu: (use.inUse - inside) * GPU,
      lent_mgpu: (use.lent ?? 0) * GPU,
      available_mgpu: (use.available ?? 0) * GPU,
      waiting_mgpu: (use.waiting ?? 0) * GPU,
      as_of: iso(Date.now() - 2000),
    },
    can_edit: ["guaranteed_mgpu", "guaranteed_percent", "borrow_limit_mgpu", "lend_limit_mgpu", "weight"],
    ...change,
  };
}

export function theQuotas(): Quota[] {
  const at = (path: string) => `ai-company/${path}`;
  const percent = (value: string): Partial<Quota> => ({ guaranteed_percent: value });
  return [
    aQuota("ai-company", 1000, { inUse: 1000, waiting: 224 }),
    aQuota(at("exploration"), 200, { inUse: 200 }, percent("20.00")),
    aQuota(at("exploration/sandbox"), 200, { inUse: 200 }, percent("100.00")),
    aQuota(
      at("production"),
      400,
      { inUse: 700, waiting: 24 },
      { ...percent("40.00"), borrow_limit_mgpu: 400 * GPU },
    ),
    aQuota(
      at("production/inference"),
      280,
      { inUse: 700, waiting: 24 },
      { ...percent("70.00"), borrow_limit_mgpu: 420 * GPU },
    ),
    aQuota(at("production/training"), 120, { inUse: 0, lent: 120 }, percent("30.00")),
    aQuota(at("research"), 400, { inUse: 100, lent: 300, waiting: 200 }, percent("40.00")),
    aQuota(at("research/nlp"), 200, { inUse: 0, lent: 200, waiting: 200 }, percent("50.00")),
    aQuota(at("research/speech"), 80, { inUse: 0, lent: 80 }, percent("20.00")),
    aQuota(at("research/vision"), 120, { inUse: 100, lent: 20 }, percent("30.00")),
  ];
}

export const POOLS: readonly Pool[] = [
  {
    id: uuid(30),
    name: "h100",
    description: "H100 80 GB",
    weight: 1000,
    capacity_mgpu: 1000 * GPU,
    guaranteed_mgpu: 1000 * GPU,
    is_overcommitted: false,
    features: ["ib", "nvlink"],
  },
];

export function theClusters(): Cluster[] {
  const now = Date.now();
  const aCluster = (n: number, name: string, kind: string, ageS: number, gpus: number): Cluster => ({
    id: uuid(40 + n),
    name,
    kind,
    is_enabled: true,
    state: "reachable",
    seen_at: iso(now - ageS * 1000),
    stale_after_s: 60,
    message: "",
    api_version: { slurm: "v0.0.40", kubernetes: "v1.36.3" }[kind] ?? "",
    nodes_refusal: "",
    eviction_refusal:
      kind === "kubernetes" ? "" : `on clusters of kind ${kind} what runs on a drained node goes on to its end`,
    pools: [
      {
        pool: "h100",
        capacity_mgpu: gpus * GPU,
        healthy_mgpu: gpus * GPU,
        outside_mgpu: 0,
        nodes: gpus / 8,
        nodes_healthy: gpus / 8,
      },
    ],
    outside: { running: 0, running_mgpu: 0, pending: 0, pending_mgpu: 0, holders: null },
    runs_images: kind === "kubernetes",
    default_images: kind === "kubernetes" ? [{ pool: "h100", image: "nvcr.io/nvidia/pytorch:24.05-py3" }] : [],
    options:
      kind === "kubernetes"
        ? {
            kubeconfig: "/etc/tidegate/kube-b",
            mode: "shared",
            pools: {
              h100: {
                node_selector: { "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3" },
                image: "nvcr.io/nvidia/pytorch:24.05-py3",
              },
            },
            allowed_registries: ["nvcr.io", "docker.io/pytorch"],
            log_root: "/var/lib/tidegate/kube-b",
          }
        : null,
  });
  return [
    aCluster(0, "local", "local", 2, 200),
    aCluster(1, "slurm-a", "slurm", 4, 600),
    { ...aCluster(2, "kube-b", "kubernetes", 372, 200), message: "No answer from the API server for 6 min." },
  ];
}

export function theNodes(cluster: string): ClusterNode[] {
  const found = theClusters().find((each) => each.name === cluster);
  return Array.from({ length: found?.pools[0]?.nodes ?? 0 }, (_, i) => ({
    id: uuid(2000 + i),
    cluster,
    name: `${cluster}-${String(i).padStart(3, "0")}`,
    pool: "h100",
    capacity_mgpu: 8 * GPU,
    is_schedulable: i !== 4,
    state: i === 4 ? "idle+drain" : "idle",
    reason: i === 4 ? "new fans" : "",
    features: i < 3 ? ["nvlink", "ib"] : [],
    domains: { block: "b1", rack: `r${Math.floor(i / 3)}` },
    request: null,
    seen_at: found?.seen_at ?? iso(Date.now()),
  }));
}

/** Two jobs on slurm-a: one on its first node, one of two ranks on that and the next. */
export function thePlacements(clusterId: string): Placement[] {
  if (clusterId !== theClusters()[1]?.id) return [];
  const onNodes = (n: number, name: string, nodes: number[]): Placement => ({
    job: uuid(100 + n),
    name,
    team: "ai-company/research/nlp",
    user: "ivo",
    state: "running",
    slots: nodes.map((node) => ({ node: `slurm-a-${String(node).padStart(3, "0")}`, mgpu: 2 * GPU })),
  });
  return [onNodes(0, "bert", [0]), onNodes(1, "llm", [0, 0, 1])];
}

export function theClusterUsers(): ClusterUser[] {
  return [
    { id: uuid(3000), user: "ana@ai-company", name: "ana" },
    { id: uuid(3001), user: "ivo@ai-company", name: "ipetrov" },
  ];
}

export function theAcceptedDifferences(): AcceptedDifference[] {
  return [
    {
      id: 7,
      subject: "account ai-company_production",
      before: { fairshare: 3 },
      after: { fairshare: 2 },
      accepted_by: "root@platform",
      accepted_at: iso(Date.now() - 86_400_000),
    },
  ];
}

export function theQuotaPushes(): QuotaPush[] {
  const at = iso(Date.now() - 120_000);
  const request = {
    requested_at: at,
    done_at: at,
    status: "done",
    error: "",
    subjects: [] as string[],
    requested_by: "root@platform",
  } as const;
  return [
    {
      ...request,
      id: uuid(3100),
      kind: "dry_run",
      change_count: 2,
      subjects: [],
      changes: [
        {
          kind: "raise",
          subject: "qos g-ai-company_research_nlp",
          before: { gpus: 40, priority: 100 },
          after: { gpus: 60, priority: 100 },
          note: "",
          result: "planned",
        },
        {
          kind: "create",
          subject: "account ai-company_research_vision",
          before: {},
          after: { parent: "ai-company_research", limit: null },
          note: "",
          result: "planned",
        },
      ],
    },
    {
      ...request,
      id: uuid(3101),
      kind: "push",
      change_count: 1,
      subjects: [],
      status: "failed",
      error: "One change was refused.",
      changes: [
        {
          kind: "lower",
          subject: "qos tg-borrow",
          before: { gpus: 800 },
          after: { gpus: 600 },
          note: "",
          result: "refused: the service user is no administrator",
        },
      ],
    },
  ];
}

export function anAttempt(change: Partial<Attempt> = {}): Attempt {
  const now = Date.now();
  return {
    id: uuid(700),
    number: 1,
    cluster: "slurm-a",
    state: "running",
    native_id: "48213",
    native_state: "RUNNING",
    slots: [],
    granted_at: iso(now - 3_620_000),
    started_at: iso(now - 3_600_000),
    checkpoint_at: null,
    notice_at: null,
    grace_until: null,
    ended_at: null,
    released_at: null,
    outcome: null,
    exit_codes: {},
    mgpu: 8 * GPU,
    guaranteed_mgpu: 8 * GPU,
    borrowed_mgpu: 0,
    message: "",
    beneficiary: null,
    ...change,
  };
}

export function aJob(change: Partial<JobDetail> = {}): JobDetail {
  const now = Date.now();
  return {
    id: uuid(0x8f2c),
    name: "train",
    type: "training",
    origin: "portal",
    team: "ai-company/research/vision",
    user: "ana",
    organization: ORGANIZATION,
    pool: "h100",
    state: "running",
    priority_class: "normal",
    mgpu_per_node: 8 * GPU,
    node_count: 1,
    node_count_min: change.node_count ?? 1,
    mgpu: 8 * GPU,
    mgpu_min: change.mgpu ?? 8 * GPU,
    time_limit_s: 72 * 3600,
    is_preemptible: false,
    is_requeueable: true,
    checkpoint_path: null,
    features: [],
    image: null,
    required_topology: null,
    preferred_topology: null,
    cluster: null,
    submitted_at: iso(now - 3_700_000),
    begin_at: null,
    started_at: iso(now - 3_600_000),
    ended_at: null,
    end_reason: null,
    exit_code: null,
    attempt: 1,
    current_attempt: anAttempt(),
    explanation: null,
    usage: { guaranteed_mgpu_s: 8 * GPU * 3600, borrowed_mgpu_s: 0 },
    can: ["cancel", "logs"],
    script: "#!/bin/bash\nset -euo pipefail\nsrun python train.py --config configs/vision.yaml\n",
    environment: { NCCL_DEBUG: "WARN", RUN_NAME: "vision-07" },
    notes: [],
    depends_on: [],
    array: null,
    ...change,
  };
}

export function anExplanation(change: Partial<Explanation> = {}): Explanation {
  const now = Date.now();
  const notice = iso(now - 48_000);
  const victim = (n: number, name: string, gpus: number, leftS: number) => ({
    job: uuid(800 + n),
    name,
    team: "ai-company/production/inference",
    mgpu: gpus * GPU,
    notice_at: notice,
    grace_until: iso(now + leftS * 1000),
  });
  return {
    code: "waiting_for_reclaim",
    sentence:
      "Your team is entitled to these 200 GPUs. They are lent out, and production is giving them back now: at the latest in 4 min 12 s.",
    numbers: { need_mgpu: 200 * GPU, free_mgpu: 0, coming_back_mgpu: 200 * GPU },
    node: "ai-company/production",
    jobs_ahead: 0,
    victims: [victim(0, "serve-llama-7", 64, 18), victim(1, "serve-llama-8", 64, 18), victim(2, "eval-sweep", 72, 252)],
    estimated_start: {
      earliest: iso(now + 18_000),
      latest: iso(now + 252_000),
      method: "reclaim",
    },
    as_of: iso(now - 2000),
    ...change,
  };
}

export function theJobs(): JobDetail[] {
  const now = Date.now();
  const waiting = {
    state: "queued",
    started_at: null,
    attempt: 0,
    current_attempt: null,
    usage: { guaranteed_mgpu_s: 0, borrowed_mgpu_s: 0 },
  } as const;
  const serving = (n: number, name: string, gpus: number, change: Partial<JobDetail> = {}) =>
    aJob({
      id: uuid(800 + n),
      name,
      team: "ai-company/production/inference",
      user: "ivo",
      type: "inference",
      priority_class: "critical",
      mgpu: gpus * GPU,
      node_count: gpus / 8,
      submitted_at: iso(now - 7_200_000 - n * 60_000),
      state: "preempting",
      current_attempt: anAttempt({
        guaranteed_mgpu: 0,
        borrowed_mgpu: gpus * GPU,
        state: "stopping",
        notice_at: iso(now - 48_000),
        grace_until: iso(now + (n === 2 ? 252_000 : 18_000)),
        beneficiary: uuid(0x8f2c),
      }),
      usage: { guaranteed_mgpu_s: 0, borrowed_mgpu_s: gpus * GPU * 6400 },
      checkpoint_path: "/data/ckpt/llama",
      features: ["ib", "nvlink"],
      image: "nvcr.io#nvidia/pytorch:24.05-py3",
      ...change,
    });
  return [
    aJob({
      ...waiting,
      id: uuid(0x8f2c),
      name: "pretrain-13b",
      team: "ai-company/research/nlp",
      type: "distributed",
      priority_class: "high",
      node_count: 25,
      mgpu: 200 * GPU,
      submitted_at: iso(now - 48_000),
      explanation: anExplanation(),
      can: ["cancel", "hold"],
    }),
    aJob({
      ...waiting,
      id: uuid(0x8f2d),
      name: "serve-llama-9",
      team: "ai-company/production/inference",
      user: "ivo",
      priority_class: "critical",
      node_count: 3,
      mgpu: 24 * GPU,
      submitted_at: iso(now - 400_000),
      explanation: anExplanation({
        code: "borrow_limit_reached",
        sentence: "Inference already borrows 420 GPUs, as many as its borrow limit allows. It starts when one of its own jobs ends.",
        numbers: { need_mgpu: 24 * GPU, borrowed_mgpu: 420 * GPU, available_mgpu: 0 },
        node: "ai-company/production/inference",
        victims: [],
        estimated_start: null,
      }),
      can: ["cancel", "hold"],
    }),
    serving(0, "serve-llama-7", 64),
    serving(1, "serve-llama-8", 64),
    serving(2, "eval-sweep", 72),
    serving(3, "serve-llama-6", 500, {
      state: "running",
      node_count: 63,
      current_attempt: anAttempt({ guaranteed_mgpu: 280 * GPU, borrowed_mgpu: 220 * GPU }),
    }),
    aJob({ id: uuid(0x9001), name: "segment-anything", node_count: 12, mgpu: 100 * GPU }),
    aJob({
      id: uuid(0x9002),
      name: "sandbox-sweep",
      team: "ai-company/exploration/sandbox",
      user: "eli",
      priority_class: "low",
      node_count: 25,
      mgpu: 200 * GPU,
    }),
    aJob({
      id: uuid(0x9003),
      name: "tokenizer-ablation",
      team: "ai-company/research/nlp",
      state: "succeeded",
      ended_at: iso(now - 5_400_000),
      exit_code: 0,
      end_reason: null,
      attempt: 2,
      current_attempt: anAttempt({
        number: 2,
        state: "ended",
        outcome: "succeeded",
        ended_at: iso(now - 5_400_000),
        exit_codes: { "0": 0 },
      }),
    }),
    aJob({
      id: uuid(0x9004),
      name: "probe-long-context",
      team: "ai-company/research/nlp",
      state: "failed",
      ended_at: iso(now - 9_000_000),
      exit_code: 137,
      end_reason: "exit_code",
      current_attempt: anAttempt({
        state: "ended",
        outcome: "failed",
        ended_at: iso(now - 9_000_000),
        exit_codes: { "0": 137 },
        message: "rank 0 was killed: out of memory",
      }),
    }),
  ];
}

export function theHistory(job: Job): HistoryEvent[] {
  const submitted = Date.parse(job.submitted_at);
  const events: HistoryEvent[] = [
    { at: job.submitted_at, event: "submitted", detail: { by: job.user } },
    { at: iso(submitted + 1000), event: "queued", detail: { place: 1 } },
  ];
  if (job.explanation?.code === "waiting_for_reclaim") {
    events.push({ at: iso(submitted + 2000), event: "reclaim_started", detail: { victims: 3, grace_s: 300 } });
  }
  if (job.started_at) events.push({ at: job.started_at, event: "started", detail: { attempt: 1, cluster: job.id } });
  return events;
}

/** What a waiting job has waited for, the latest first. */
export function theReasons(job: JobDetail): JobReason[] {
  if (job.explanation === null) return [];
  const { code, sentence, numbers, node, jobs_ahead, estimated_start } = job.explanation;
  const submitted = Date.parse(job.submitted_at);
  const latest = { since: iso(submitted + 30_000), code, sentence, numbers, node, jobs_ahead, estimated_start };
  return [
    latest,
    {
      ...latest,
      since: iso(submitted + 1000),
      code: "waiting_for_free_gpus",
      sentence: "It needs 200 GPUs (25 nodes with 8 each); 0 are free.",
      numbers: { need_mgpu: job.mgpu, free_mgpu: 0 },
      node: null,
      estimated_start: null,
    },
  ];
}

export function thePriorityClasses(): PriorityClass[] {
  const rows = [
    ["critical", 1000, "production inference"],
    ["high", 100, "training deadlines"],
    ["normal", 10, "research"],
    ["low", 1, "experimentation"],
  ] as const;
  return rows.map(([name, order, description], i) => ({
    id: uuid(60 + i),
    organization: ORGANIZATION,
    name,
    order,
    preempts_within_team: order >= 100,
    preempts_across_teams: false,
    version: 1,
    grace_period_s: 300,
    team_cap_mgpu: null,
    price_multiplier_ppm: name === "critical" ? 1_500_000 : 1_000_000,
    description,
  }));
}

const HOUR = 3600;

/** A month of use that adds up. `start` and `end` as asked. */
export function aChargeback(start: string, end: string, groupBy = "team"): Chargeback {
  const NANO = 1_000_000_000;
  const row = (node: string, kind: Chargeback["rows"][number]["node_kind"], guaranteed: number, borrowed: number, jobs: number) => ({
    node: `ai-company/${node}`,
    node_kind: kind,
    pool: "h100",
    guaranteed_mgpu_s: guaranteed * HOUR * GPU,
    borrowed_mgpu_s: borrowed * HOUR * GPU,
    guaranteed_cost_nano: guaranteed * 2 * NANO,
    borrowed_cost_nano: borrowed * 1.5 * NANO,
    cost_nano: guaranteed * 2 * NANO + borrowed * 1.5 * NANO,
    unpriced_mgpu_s: 0,
    jobs,
  });
  const teams = [
    row("exploration/sandbox", "team", 98_200, 14_700, 312),
    row("production/inference", "team", 150_100, 118_900, 88),
    row("production/training", "team", 62_300, 0, 41),
    row("research/nlp", "team", 71_000, 1_000, 129),
    row("research/vision", "team", 72_800, 1_100, 164),
  ];
  const departments = [
    row("exploration", "department", 98_200, 14_700, 312),
    row("production", "department", 212_400, 118_900, 129),
    row("research", "department", 143_800, 2_100, 293),
  ];
  const rows =
    groupBy === "department"
      ? [...departments, ...teams].sort((a, b) => (a.node < b.node ? -1 : 1))
      : teams;
  const sum = (value: (each: Chargeback["rows"][number]) => number) =>
    teams.reduce((total, each) => total + value(each), 0);
  const guaranteed = sum((each) => each.guaranteed_mgpu_s);
  const borrowed = sum((each) => each.borrowed_mgpu_s);
  const dayMs = 86_400_000;
  const last = Math.min(Date.parse(end), Date.now());
  const count = Math.max(1, Math.ceil((last - Date.parse(start)) / dayMs));
  const days = Array.from({ length: count }, (_, i) => {
    const weekend = [0, 6].includes(new Date(Date.parse(start) + i * dayMs).getUTCDay()) ? 0.75 : 1;
    return {
      day: iso(Date.parse(start) + i * dayMs).slice(0, 10),
      pool: "h100",
      guaranteed_mgpu_s: Math.round((guaranteed / count) * weekend * (0.95 + (i % 5) * 0.02)),
      borrowed_mgpu_s: Math.round((borrowed / count) * weekend * weekend * (0.8 + (i % 7) * 0.07)),
    };
  });
  const capacity = Math.round(1.18 * (guaranteed + borrowed));
  return {
    start,
    end,
    as_of: iso(last),
    currency: "EUR",
    rows,
    totals: {
      guaranteed_mgpu_s: guaranteed,
      borrowed_mgpu_s: borrowed,
      guaranteed_cost_nano: sum((each) => each.guaranteed_cost_nano),
      borrowed_cost_nano: sum((each) => each.borrowed_cost_nano),
      cost_nano: sum((each) => each.cost_nano),
      unpriced_mgpu_s: 0,
      jobs: sum((each) => each.jobs),
    },
    check: { segments_mgpu_s: guaranteed + borrowed, rows_mgpu_s: guaranteed + borrowed, is_equal: true },
    days,
    capacity: [
      {
        pool: "h100",
        capacity_mgpu_s: capacity,
        in_use_mgpu_s: guaranteed + borrowed,
        outside_mgpu_s: 0,
        idle_mgpu_s: capacity - guaranteed - borrowed,
      },
    ],
  };
}

export function theTokens(): Token[] {
  const now = Date.now();
  return [
    {
      id: uuid(90),
      name: "laptop",
      prefix: "tdg_9fK2",
      scopes: ["read", "jobs"],
      created_at: iso(now - 86_400_000 * 12),
      expires_at: iso(now + 86_400_000 * 18),
      last_used_at: iso(now - 300_000),
      revoked_at: null,
    },
  ];
}
