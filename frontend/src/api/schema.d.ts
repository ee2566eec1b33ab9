/* Hand-written after the REST contract until `npm run types` writes this file from openapi.json. */

type Body<T> = { content: { "application/json": T } };
type Answer<T> = { headers: Record<string, unknown>; content: { "application/json": T } };
type Empty = { headers: Record<string, unknown>; content?: never };
type Op<Query, Path, Request, Response, Header = never> = {
  parameters: { query?: Query; header?: Header; cookie?: never } & ([Path] extends [never] ? { path?: never } : { path: Path });
  requestBody?: Request;
  responses: Response;
};
type Read<R, Query = never, Path = never> = Op<Query, Path, never, { 200: Answer<R> }>;
type Page<T> = { items: T[]; next: string | null };
type S = components["schemas"];
type ById = { id: string };
type Paged = { limit?: number; cursor?: string };

export interface components {
  schemas: {
    Session: {
      user: {
        id: string;
        login: string;
        username: string;
        name: string;
        kind: "person" | "service";
        organization: { id: string; slug: string; name: string } | null;
      };
      grants: { role: string; node_path: string | null }[];
      permissions: Record<string, string[]>;
      csrf_token: string;
      features: { version: string };
    };
    Node: {
      id: string;
      kind: "organization" | "department" | "team";
      slug: string;
      name: string;
      path: string;
      parent: string | null;
      organization: string;
      depth: number;
    };
    Pool: {
      id: string;
      name: string;
      description: string;
      weight: number;
      capacity_mgpu: number;
      guaranteed_mgpu: number | null;
      is_overcommitted: boolean;
    };
    ClusterPool: {
      pool: string;
      capacity_mgpu: number;
      healthy_mgpu: number;
      nodes: number;
      nodes_healthy: number;
    };
    Cluster: {
      id: string;
      name: string;
      kind: string;
      is_enabled: boolean;
      state: "reachable" | "unreachable" | "never_seen";
      seen_at: string | null;
      stale_after_s: number;
      message: string;
      pools: S["ClusterPool"][];
    };
    ClusterNode: {
      id: string;
      cluster: string;
      name: string;
      pool: string;
      capacity_mgpu: number;
      is_schedulable: boolean;
      state: string;
      seen_at: string | null;
    };
    QuotaUse: {
      in_use_mgpu: number;
      protected_mgpu: number;
      borrowed_mgpu: number;
      lent_mgpu: number;
      available_mgpu: number;
      waiting_mgpu: number;
      as_of: string | null;
    };
    Quota: {
      id: string;
      node: string;
      node_kind: "organization" | "department" | "team";
      node_name: string;
      parent: string | null;
      pool: string;
      guaranteed_mgpu: number;
      guaranteed_percent: string | null;
      borrow_limit_mgpu: number | null;
      lend_limit_mgpu: number | null;
      weight: number;
      version: number;
      reserve_mgpu: number;
      use: S["QuotaUse"];
      can_edit: string[];
    };
    QuotaPatch: {
      guaranteed_mgpu?: number;
      guaranteed_percent?: string;
      borrow_limit_mgpu?: number | null;
      lend_limit_mgpu?: number | null;
      weight?: number;
      reason: string;
    };
    QuotaChange: {
      id: string;
      at: string;
      actor: string | null;
      before: Record<string, unknown> | null;
      after: Record<string, unknown>;
      reason: string;
    };
    PriorityClass: {
      id: string;
      organization: string;
      name: string;
      order: number;
      preempts_within_team: boolean;
      grace_period_s: number;
      team_cap_mgpu: number | null;
      price_multiplier_ppm: number;
      description: string;
    };
    Attempt: {
      id: string;
      number: number;
      cluster: string;
      state: "reserved" | "starting" | "running" | "stopping" | "ended";
      native_id: string;
      native_state: string;
      slots: { node: string; mgpu: number }[];
      granted_at: string | null;
      started_at: string | null;
      notice_at: string | null;
      grace_until: string | null;
      ended_at: string | null;
      released_at: string | null;
      outcome: string | null;
      exit_codes: Record<string, number>;
      guaranteed_mgpu: number;
      borrowed_mgpu: number;
      message: string;
      beneficiary: string | null;
    };
    Explanation: {
      code: string;
      sentence: string;
      numbers: Record<string, unknown>;
      node: string | null;
      jobs_ahead: number;
      victims: {
        job: string;
        name: string;
        team: string;
        mgpu: number;
        notice_at: string | null;
        grace_until: string | null;
      }[];
      estimated_start: { earliest: string | null; latest: string | null; method: string } | null;
      as_of: string;
    };
    Job: {
      id: string;
      name: string;
      type: string;
      team: string;
      user: string;
      organization: string;
      pool: string;
      state:
        | "queued"
        | "starting"
        | "running"
        | "preempting"
        | "succeeded"
        | "failed"
        | "cancelled"
        | "timed_out"
        | "held";
      priority_class: string;
      mgpu_per_node: number;
      node_count: number;
      mgpu: number;
      time_limit_s: number | null;
      is_preemptible: boolean;
      is_requeueable: boolean;
      checkpoint_path: string | null;
      cluster: string | null;
      submitted_at: string;
      started_at: string | null;
      ended_at: string | null;
      end_reason: string | null;
      exit_code: number | null;
      attempt: number;
      current_attempt: S["Attempt"] | null;
      explanation: S["Explanation"] | null;
      usage: { guaranteed_mgpu_s: number; borrowed_mgpu_s: number };
      can: string[];
    };
    JobDetail: S["Job"] & {
      script: string | null;
      environment: Record<string, string> | null;
      notes: S["Note"][];
    };
    Note: {
      line: number;
      text: string;
      verdict: "understood" | "ignored" | "refused";
      detail: string;
    };
    JobRequest: {
      team: string;
      name?: string;
      pool?: string;
      gpus?: string;
      gpus_per_node?: string;
      nodes?: number;
      script?: string;
      sbatch?: string;
      time_limit_s?: number | null;
      priority_class?: string;
      type?: string;
      environment?: Record<string, string>;
      is_preemptible?: boolean;
      is_requeueable?: boolean;
      checkpoint_path?: string;
      cluster?: string;
      notice_signal?: string;
      held?: boolean;
    };
    JobPlan: {
      job: Partial<S["Job"]>;
      notes: S["Note"][];
      fits: boolean;
      explanation: S["Explanation"] | null;
      would_start_now: boolean;
      guaranteed_mgpu: number;
      borrowed_mgpu: number;
      cluster: string | null;
      cost_per_hour_nano: number | null;
      currency: string | null;
    };
    HistoryEvent: { at: string; event: string; detail: string };
    LogChunk: {
      attempt: number;
      rank: number;
      stream: "stdout" | "stderr";
      offset: number;
      next_offset: number;
      text: string;
      is_final: boolean;
      is_truncated: boolean;
      ranks: number;
    };
    ChargebackRow: {
      node: string;
      node_kind: string;
      pool: string;
      guaranteed_mgpu_s: number;
      borrowed_mgpu_s: number;
      guaranteed_cost_nano: number;
      borrowed_cost_nano: number;
      cost_nano: number;
      jobs: number;
    };
    ChargebackTotals: Omit<S["ChargebackRow"], "node" | "node_kind" | "pool">;
    Chargeback: {
      start: string;
      end: string;
      as_of: string;
      currency: string;
      rows: S["ChargebackRow"][];
      totals: S["ChargebackTotals"];
      check: { segments_mgpu_s: number; rows_mgpu_s: number; is_equal: boolean };
      days: { day: string; pool: string; guaranteed_mgpu_s: number; borrowed_mgpu_s: number }[];
      capacity:
        | { pool: string; capacity_mgpu_s: number; in_use_mgpu_s: number; idle_mgpu_s: number }[]
        | null;
    };
    ChargebackJob: {
      job: string;
      name: string;
      team: string;
      user: string;
      pool: string;
      usage_class: "guaranteed" | "borrowed";
      mgpu_s: number;
      cost_nano: number;
      attempts: number;
    };
    Token: {
      id: string;
      name: string;
      prefix: string;
      scopes: string[];
      expires_at: string;
      last_used_at: string | null;
      created_at: string;
      revoked_at: string | null;
    };
    TokenRequest: { name: string; scopes: string[]; expires_in_days: number };
    NewToken: S["Token"] & { secret: string };
  };
}

export interface paths {
  "/api/v1/session": {
    get: Read<S["Session"]>;
    post: Op<never, never, Body<{ login: string; password: string }>, { 200: Answer<S["Session"]> }>;
    delete: Op<never, never, never, { 204: Empty }>;
  };
  "/api/v1/organizations": { get: Read<Page<S["Node"]>, Paged> };
  "/api/v1/departments": { get: Read<Page<S["Node"]>, Paged & { organization?: string; parent?: string }> };
  "/api/v1/teams": { get: Read<Page<S["Node"]>, Paged & { organization?: string; parent?: string }> };
  "/api/v1/pools": { get: Read<Page<S["Pool"]>, Paged> };
  "/api/v1/clusters": { get: Read<Page<S["Cluster"]>, Paged> };
  "/api/v1/nodes": { get: Read<Page<S["ClusterNode"]>, Paged & { cluster?: string; pool?: string }> };
  "/api/v1/quotas": {
    get: Read<Page<S["Quota"]>, Paged & { pool?: string; node?: string; subtree?: string }>;
  };
  "/api/v1/quotas/{id}": {
    get: Read<S["Quota"], never, ById>;
    patch: Op<never, ById, Body<S["QuotaPatch"]>, { 200: Answer<S["Quota"]> }, { "If-Match": string }>;
  };
  "/api/v1/quotas/{id}/changes": { get: Read<Page<S["QuotaChange"]>, Paged, ById> };
  "/api/v1/priority-classes": { get: Read<Page<S["PriorityClass"]>, Paged & { organization?: string }> };
  "/api/v1/jobs": {
    get: Read<
      Page<S["Job"]>,
      Paged & {
        state?: string;
        team?: string;
        user?: string;
        pool?: string;
        q?: string;
        submitted_at__gte?: string;
        submitted_at__lt?: string;
        usage_class?: string;
        sort?: string;
      }
    >;
    post: Op<
      { dry_run?: boolean },
      never,
      Body<S["JobRequest"]>,
      { 200: Answer<S["JobPlan"]>; 201: Answer<S["JobDetail"]> },
      { "Idempotency-Key"?: string }
    >;
  };
  "/api/v1/jobs/{id}": { get: Read<S["JobDetail"], never, ById> };
  "/api/v1/jobs/{id}/attempts": { get: Read<Page<S["Attempt"]>, Paged, ById> };
  "/api/v1/jobs/{id}/history": { get: Read<Page<S["HistoryEvent"]>, Paged, ById> };
  "/api/v1/jobs/{id}/logs": {
    get: Read<
      S["LogChunk"],
      { attempt?: number; rank?: number; stream?: string; offset?: number; limit?: number },
      ById
    >;
  };
  "/api/v1/jobs/{id}/cancel": { post: Op<never, ById, never, { 200: Answer<S["JobDetail"]> }> };
  "/api/v1/jobs/{id}/hold": { post: Op<never, ById, never, { 200: Answer<S["JobDetail"]> }> };
  "/api/v1/jobs/{id}/release": { post: Op<never, ById, never, { 200: Answer<S["JobDetail"]> }> };
  "/api/v1/reports/chargeback": {
    get: Read<
      S["Chargeback"],
      {
        start: string;
        end: string;
        organization?: string;
        team?: string;
        group_by?: string;
        pool?: string;
      }
    >;
  };
  "/api/v1/reports/chargeback/jobs": {
    get: Read<
      Page<S["ChargebackJob"]>,
      Paged & { start: string; end: string; node: string; pool?: string; usage_class?: string }
    >;
  };
  "/api/v1/tokens": {
    get: Read<Page<S["Token"]>, Paged>;
    post: Op<never, never, Body<S["TokenRequest"]>, { 201: Answer<S["NewToken"]> }>;
  };
  "/api/v1/tokens/{id}": { delete: Op<never, ById, never, { 204: Empty }> };
}
