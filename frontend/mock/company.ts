/**
 * The worked example's story, made up at the moment of asking: production holds 700 GPUs of its
 * 400, exploration its 200, vision 100 of 120, and nlp's gang of 200 waits for reclaim.
 */
import type {
  BrowserSession,
  AcceptedDifference,
  Cluster,
  ClusterNode,
  ClusterUser,
  Placement,
  Pool,
  PriorityClass,
  Quota,
  QuotaPush,
  Scheduler,
  Session,
  Token,
  TreeNode,
  User,
} from "../src/api/types";

export const GPU = 1000;

export function iso(ms: number): string {
  return new Date(ms).toISOString().replace(/\.\d{3}Z$/, "Z");
}

export function uuid(n: number): string {
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
      must_change_password: false,
      must_add_second_factor: false,
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
        "manage_structure",
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
    archived_at: null,
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
    device: "gpu" as const,
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

/** How long ago kube-b answered last. */
const KUBE_B_AGE_S = 372;

export const POOLS: readonly Pool[] = [
  {
    id: uuid(30),
    name: "h100",
    description: "H100 80 GB",
    device: "gpu",
    weight: 1000,
    archived_at: null,
    aliases: ["nvidia-h100-80gb-hbm3"],
    capacity_mgpu: 1000 * GPU,
    capacity_as_of: iso(Date.now() - KUBE_B_AGE_S * 1000),
    guaranteed_mgpu: 1000 * GPU,
    is_overcommitted: false,
    features: ["ib", "nvlink"],
  },
];

export function theScheduler(ageS = 1): Scheduler {
  const at = new Date(Date.now() - ageS * 1000).toISOString();
  const isLate = ageS > 15;
  return { last_cycle_at: at, is_late: isLate, last_observation_at: at, is_observer_late: isLate, late_after_s: 15 };
}

const SLURM_WORDS: Cluster["words"] = {
  variant: "",
  account: "Account",
  unknown_account: "the account is no team's",
  unknown_user: "the user is not mapped",
  limits: "The cluster enforces the quotas too, as accounts and limits of its own.",
  limit_objects: "accounts, members and limits",
  subjects: {},
};
const KUBERNETES_WORDS: Cluster["words"] = {
  variant: "Kueue, shared mode",
  account: "Namespace",
  unknown_account: "the Pods came through no team's queue",
  unknown_user: "no user of this name is known",
  limits: "Kueue enforces the quotas too, as cohorts and queues of its own, also while this portal is away.",
  limit_objects: "namespaces, queues and cohorts",
  subjects: { cohort: "Cohort", namespace: "Namespace", "cluster queue": "ClusterQueue", queue: "LocalQueue" },
};

export function theClusters(): Cluster[] {
  const now = Date.now();
  const aCluster = (n: number, name: string, kind: string, ageS: number, gpus: number): Cluster => ({
    id: uuid(40 + n),
    name,
    kind,
    is_enabled: true,
    archived_at: null,
    state: "reachable",
    seen_at: iso(now - ageS * 1000),
    stale_after_s: 60,
    message: "",
    isolation:
      kind === "local"
        ? "Jobs are isolated: each person's run as a user of their own, and see neither the portal's folders nor other jobs."
        : "",
    api_version: { slurm: "v0.0.40", kubernetes: "v1.36.3" }[kind] ?? "",
    nodes_refusal: "",
    eviction_refusal:
      kind === "kubernetes" ? "" : `on clusters of kind ${kind} what runs on a drained node goes on to its end`,
    pools: [
      {
        pool: "h100",
        device: "gpu" as const,
        capacity_mgpu: gpus * GPU,
        healthy_mgpu: gpus * GPU,
        outside_mgpu: 0,
        nodes: gpus / 8,
        nodes_healthy: gpus / 8,
      },
    ],
    outside: { running: 0, running_mgpu: 0, pending: 0, pending_mgpu: 0, holders: null },
    kind_label: { slurm: "Slurm", kubernetes: "Kubernetes", local: "Local" }[kind] ?? kind,
    words: kind === "kubernetes" ? KUBERNETES_WORDS : SLURM_WORDS,
    has_users: kind === "slurm",
    keeps_limits: kind !== "local",
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
    { ...aCluster(2, "kube-b", "kubernetes", KUBE_B_AGE_S, 200), message: "No answer from the API server for 6 min." },
  ];
}

export function theNodes(cluster: string): ClusterNode[] {
  const found = theClusters().find((each) => each.name === cluster);
  return Array.from({ length: found?.pools[0]?.nodes ?? 0 }, (_, i) => ({
    id: uuid(2000 + i),
    cluster,
    name: `${cluster}-${String(i).padStart(3, "0")}`,
    pool: "h100",
    device: "gpu" as const,
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
    use_factor_percent: name === "low" ? 50 : 100,
    price_multiplier_ppm: name === "critical" ? 1_500_000 : 1_000_000,
    description,
    is_retired: false,
  }));
}

/** No charges beside use, and no showback. */
export const NO_CHARGES = { commitment_mgpu_s: 0, commitment_cost_nano: 0, top_up_mgpu_s: 0, top_up_cost_nano: 0, showback_nano: 0 };

/** Bob, and a service account. */
export function theUsers(): User[] {
  const rest = { organization: ORGANIZATION, email: "", is_active: true, must_change_password: false, created_at: iso(Date.now() - 86_400_000) };
  return [
    { id: uuid(95), login: "bob@ai-company", username: "bob", name: "Bob Meyer", kind: "person", ...rest },
    { id: uuid(96), login: "ci@ai-company", username: "ci", name: "Continuous integration", kind: "service", ...rest },
    { id: uuid(97), login: "eve@ai-company", username: "eve", name: "Eve Moreau", kind: "person", ...rest, is_active: false },
  ];
}

/** This browser, and another one on a phone. */
export function theSessions(user = "ana@ai-company"): BrowserSession[] {
  const now = Date.now();
  return [
    {
      id: uuid(91),
      user,
      device: "Firefox on Linux",
      user_agent: "Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0",
      address: "192.0.2.7",
      started_at: iso(now - 3_600_000),
      last_used_at: iso(now - 30_000),
      expires_at: iso(now + 11 * 3_600_000),
      is_current: user === "ana@ai-company",
    },
    {
      id: uuid(92),
      user,
      device: "Safari on iPhone",
      user_agent: "Mozilla/5.0 (iPhone; CPU iPhone OS 19_0 like Mac OS X) Version/19.0 Safari/604.1",
      address: "2001:db8:85a3:8d3:1319:8a2e:370:7348",
      started_at: iso(now - 5 * 3_600_000),
      last_used_at: iso(now - 2 * 3_600_000),
      expires_at: iso(now + 7 * 3_600_000),
      is_current: false,
    },
  ];
}

export function theTokens(user = "ai-company/ana"): Token[] {
  const now = Date.now();
  return [
    {
      id: uuid(90),
      user,
      made_by: null,
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
