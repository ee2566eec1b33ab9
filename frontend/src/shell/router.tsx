import type { QueryClient } from "@tanstack/react-query";
import {
  createRootRouteWithContext,
  createRoute,
  createRouter,
  lazyRouteComponent,
  Outlet,
  redirect,
  retainSearchParams,
  type RouterHistory,
} from "@tanstack/react-router";

import { someJobsQuery } from "../api/queries";
import type { PlannedStatus } from "../api/types";
import { LoginPage } from "../session/LoginPage";
import { ErrorCard, Lines } from "../ui/states";
import { NotFoundPage } from "./NotFoundPage";
import { choiceParam, numberParam, parseSearch, stringifySearch, textParam, timeParam } from "./search";
import { Shell } from "./Shell";

export const LOG_VIEWS = ["merged", "stdout", "stderr"] as const;
export const JOB_TABS = ["log", "timeline", "reasons", "decisions", "attempts", "script"] as const;
export const PERIODS = ["hour", "today", "yesterday", "month", "last-month", "custom"] as const;
export const GROUPINGS = ["team", "department"] as const;
export const SUBMIT_DOORS = ["form", "sbatch"] as const;
export const CLUSTER_TABS = ["nodes", "users", "quotas", "options", "use"] as const;
/** Kinds of cluster that are added by a form. */
export const ADDED_KINDS = ["slurm", "kubernetes"] as const;
export const NODE_CHOICES = ["out", "busy"] as const;
export const PLANNED_STATUSES: readonly PlannedStatus[] = [
  "draft",
  "scheduled",
  "applied",
  "reverted",
  "kept",
  "cancelled",
  "expired",
  "failed",
];
export const DECISION_KINDS = ["started", "claimed", "stopped", "claim_dropped"] as const;
export const USAGE_CLASSES = ["guaranteed", "borrowed"] as const;

const rootRoute = createRootRouteWithContext<{ queryClient: QueryClient }>()({
  component: Outlet,
});

const loginRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/login",
  validateSearch: (search) => ({ next: textParam(search, "next") }),
  component: LoginPage,
});

/** For who holds a password link, signed in or not. */
const setPasswordRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/set-password",
  component: lazyRouteComponent(() => import("../session/SetPasswordPage"), "SetPasswordPage"),
});

/** Everything behind the login. `scope` is the tree node that the pages are narrowed to. */
const shellRoute = createRoute({
  getParentRoute: () => rootRoute,
  id: "shell",
  validateSearch: (search): { scope?: string } => ({ scope: textParam(search, "scope") }),
  search: { middlewares: [retainSearchParams(["scope"])] },
  component: Shell,
});

const homeRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/",
  component: lazyRouteComponent(() => import("../home/HomePage"), "HomePage"),
});

const quotasRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/quotas",
  validateSearch: (search): { pool?: string; node?: string } => ({
    pool: textParam(search, "pool"),
    node: textParam(search, "node"),
  }),
  component: lazyRouteComponent(() => import("../quotas/QuotasPage"), "QuotasPage"),
});

const plannedChangesRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/quota-changes",
  validateSearch: (search): { status?: PlannedStatus } => ({
    status: choiceParam(search, "status", PLANNED_STATUSES),
  }),
  component: lazyRouteComponent(() => import("../planned/PlannedChangesPage"), "PlannedChangesPage"),
});

/** `from`: the planned change whose figures the new draft begins with. */
const draftRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/quota-changes/new",
  validateSearch: (search): { pool?: string; from?: string } => ({
    pool: textParam(search, "pool"),
    from: textParam(search, "from"),
  }),
  component: lazyRouteComponent(() => import("../planned/DraftPage"), "DraftPage"),
});

const plannedChangeRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/quota-changes/$plannedId",
  validateSearch: (search): { preview?: "now" } => ({ preview: choiceParam(search, "preview", ["now"] as const) }),
  component: lazyRouteComponent(() => import("../planned/PlannedChangePage"), "PlannedChangePage"),
});

const policyRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/policy",
  validateSearch: (search): { organization?: string; name?: string } => ({
    organization: textParam(search, "organization"),
    name: textParam(search, "name"),
  }),
  component: lazyRouteComponent(() => import("../policy/PolicyPage"), "PolicyPage"),
});

const jobsRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/jobs",
  validateSearch: (
    search,
  ): { state?: string; user?: string; pool?: string; q?: string; array?: string; cursor?: string } => ({
    state: textParam(search, "state"),
    user: textParam(search, "user"),
    pool: textParam(search, "pool"),
    q: textParam(search, "q"),
    array: textParam(search, "array"),
    cursor: textParam(search, "cursor"),
  }),
  component: lazyRouteComponent(() => import("../jobs/JobsPage"), "JobsPage"),
});

const jobRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/jobs/$jobId",
  validateSearch: (
    search,
  ): {
    tab?: (typeof JOB_TABS)[number];
    attempt?: number;
    rank?: number;
    stream?: (typeof LOG_VIEWS)[number];
  } => ({
    tab: choiceParam(search, "tab", JOB_TABS),
    attempt: numberParam(search, "attempt", 1_000_000),
    rank: numberParam(search, "rank", 1_000_000),
    stream: choiceParam(search, "stream", LOG_VIEWS),
  }),
  beforeLoad: async ({ params: { jobId }, context: { queryClient } }) => {
    const end = jobId.toLowerCase();
    if (!/^[0-9a-f]{4,12}$/.test(end)) return;
    // The end of an id, as pages show it: to its job, or to the list of those that it may be.
    const found = await queryClient.query(someJobsQuery({ q: end }, 20)).catch(() => null);
    const ids = (found?.items ?? []).map((job) => job.id).filter((id) => id.endsWith(end));
    const [only] = ids;
    if (only !== undefined && ids.length === 1) throw redirect({ to: "/jobs/$jobId", params: { jobId: only } });
    throw redirect({ to: "/jobs", search: { q: end } });
  },
  component: lazyRouteComponent(() => import("../jobs/JobPage"), "JobPage"),
});

const submitRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/submit",
  validateSearch: (search): { door?: (typeof SUBMIT_DOORS)[number]; from?: string; instead?: string } => ({
    door: choiceParam(search, "door", SUBMIT_DOORS),
    from: textParam(search, "from"),
    instead: textParam(search, "instead"),
  }),
  component: lazyRouteComponent(() => import("../submit/SubmitPage"), "SubmitPage"),
});

const chargebackRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/chargeback",
  validateSearch: (
    search,
  ): {
    period?: (typeof PERIODS)[number];
    start?: string;
    end?: string;
    group?: (typeof GROUPINGS)[number];
    pool?: string;
  } => ({
    period: choiceParam(search, "period", PERIODS),
    start: textParam(search, "start"),
    end: textParam(search, "end"),
    group: choiceParam(search, "group", GROUPINGS),
    pool: textParam(search, "pool"),
  }),
  component: lazyRouteComponent(() => import("../billing/ChargebackPage"), "ChargebackPage"),
});

const chargebackJobsRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/chargeback/jobs",
  validateSearch: (
    search,
  ): {
    start?: string;
    end?: string;
    as_of?: string;
    node?: string;
    pool?: string;
    usage?: (typeof USAGE_CLASSES)[number];
  } => ({
    start: textParam(search, "start"),
    end: textParam(search, "end"),
    as_of: textParam(search, "as_of"),
    node: textParam(search, "node"),
    pool: textParam(search, "pool"),
    usage: choiceParam(search, "usage", USAGE_CLASSES),
  }),
  component: lazyRouteComponent(
    () => import("../billing/ChargebackJobsPage"),
    "ChargebackJobsPage",
  ),
});

const clustersRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/clusters",
  component: lazyRouteComponent(() => import("../clusters/ClustersPage"), "ClustersPage"),
});

const clusterRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/clusters/$name",
  validateSearch: (
    search,
  ): { tab?: (typeof CLUSTER_TABS)[number]; q?: string; show?: (typeof NODE_CHOICES)[number]; push?: string } => ({
    tab: choiceParam(search, "tab", CLUSTER_TABS),
    q: textParam(search, "q"),
    show: choiceParam(search, "show", NODE_CHOICES),
    push: textParam(search, "push"),
  }),
  component: lazyRouteComponent(() => import("../clusters/ClusterPage"), "ClusterPage"),
});

const addClusterRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/add-cluster",
  validateSearch: (search): { kind?: (typeof ADDED_KINDS)[number] } => ({
    kind: choiceParam(search, "kind", ADDED_KINDS),
  }),
  component: lazyRouteComponent(() => import("../clusters/AddClusterPage"), "AddClusterPage"),
});

const decisionsRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/decisions",
  validateSearch: (
    search,
  ): { view?: "cycles"; decision?: (typeof DECISION_KINDS)[number]; pool?: string; before?: string } => ({
    view: choiceParam(search, "view", ["cycles"] as const),
    decision: choiceParam(search, "decision", DECISION_KINDS),
    pool: textParam(search, "pool"),
    before: textParam(search, "before"),
  }),
  component: lazyRouteComponent(() => import("../decisions/DecisionsPage"), "DecisionsPage"),
});

const cycleRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/decisions/$cycleId",
  component: lazyRouteComponent(() => import("../decisions/CyclePage"), "CyclePage"),
});

const accessRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/access",
  component: lazyRouteComponent(() => import("../access/AccessPage"), "AccessPage"),
});

const auditRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/audit",
  validateSearch: (
    search,
  ): { actor?: string; action?: string; object?: string; since?: string; until?: string } => ({
    actor: textParam(search, "actor"),
    action: textParam(search, "action"),
    object: textParam(search, "object"),
    since: timeParam(search, "since"),
    until: timeParam(search, "until"),
  }),
  component: lazyRouteComponent(() => import("../audit/AuditPage"), "AuditPage"),
});

/** `user`: whose tokens are shown, by login. */
const peopleRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/people",
  validateSearch: (search): { user?: string } => ({ user: textParam(search, "user") }),
  component: lazyRouteComponent(() => import("../people/PeoplePage"), "PeoplePage"),
});

/** Whatever is none of the above. */
const unknownRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "$",
  component: NotFoundPage,
});

const routeTree = rootRoute.addChildren([
  loginRoute,
  setPasswordRoute,
  shellRoute.addChildren([
    homeRoute,
    quotasRoute,
    plannedChangesRoute,
    draftRoute,
    plannedChangeRoute,
    policyRoute,
    jobsRoute,
    jobRoute,
    submitRoute,
    chargebackRoute,
    chargebackJobsRoute,
    clustersRoute,
    clusterRoute,
    addClusterRoute,
    decisionsRoute,
    cycleRoute,
    accessRoute,
    auditRoute,
    peopleRoute,
    unknownRoute,
  ]),
]);

export function createAppRouter(queryClient: QueryClient, history?: RouterHistory) {
  return createRouter({
    routeTree,
    history,
    context: { queryClient },
    parseSearch,
    stringifySearch,
    // What no page knows is dropped from the address: a list that passed it on would be refused.
    search: { strict: true },
    defaultPreload: "intent",
    defaultPendingComponent: () => <Lines count={6} />,
    defaultErrorComponent: ({ error, reset }) => <ErrorCard error={error instanceof Error ? error : new Error(String(error))} onRetry={reset} />,
    defaultNotFoundComponent: NotFoundPage,
    scrollRestoration: true,
  });
}

declare module "@tanstack/react-router" {
  interface Register {
    router: ReturnType<typeof createAppRouter>;
  }
}
