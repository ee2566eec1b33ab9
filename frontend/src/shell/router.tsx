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
import { auditSearch } from "../audit/search";
import { chargebackJobsSearch, chargebackSearch, reconciliationSearch } from "../billing/search";
import { addClusterSearch, clusterSearch } from "../clusters/search";
import { creditsSearch } from "../credits/search";
import { guideSearch } from "../guide/search";
import { historySearch } from "../history/search";
import { pricesSearch } from "../prices/search";
import { decisionsSearch } from "../decisions/search";
import { noticesSearch, webhooksSearch } from "../notices/search";
import { deviceSearch } from "../device/search";
import { jobSearch, jobsSearch } from "../jobs/search";
import { peopleSearch } from "../people/search";
import { periodsSearch } from "../periods/search";
import { draftSearch, plannedChangeSearch, plannedChangesSearch } from "../planned/search";
import { policySearch } from "../policy/search";
import { quotasSearch } from "../quotas/search";
import { LoginPage } from "../session/LoginPage";
import { loginSearch } from "../session/search";
import { requestsSearch } from "../requests/search";
import { sharesSearch } from "../shares/search";
import { signInSearch } from "../signin/search";
import { submitSearch } from "../submit/search";
import { membersSearch } from "../tree/search";
import { ErrorCard, Lines } from "../ui/states";
import { NotFoundPage } from "./NotFoundPage";
import { parseSearch, stringifySearch, textParam } from "./search";
import { Shell } from "./Shell";

const rootRoute = createRootRouteWithContext<{ queryClient: QueryClient }>()({
  component: Outlet,
});

const loginRoute = createRoute({
  getParentRoute: () => rootRoute,
  path: "/login",
  validateSearch: loginSearch,
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
  validateSearch: quotasSearch,
  component: lazyRouteComponent(() => import("../quotas/QuotasPage"), "QuotasPage"),
});

/** The pages of one node. Each tab is a child route. */
const treeNodeRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/tree/$nodeId",
  component: lazyRouteComponent(() => import("../tree/TreePage"), "TreePage"),
});

const treeNodeIndexRoute = createRoute({
  getParentRoute: () => treeNodeRoute,
  path: "/",
  beforeLoad: ({ params }) => {
    throw redirect({ to: "/tree/$nodeId/members", params });
  },
});

const membersRoute = createRoute({
  getParentRoute: () => treeNodeRoute,
  path: "members",
  validateSearch: membersSearch,
  component: lazyRouteComponent(() => import("../tree/MembersTab"), "MembersTab"),
});

const structureRoute = createRoute({
  getParentRoute: () => treeNodeRoute,
  path: "structure",
  component: lazyRouteComponent(() => import("../tree/StructureTab"), "StructureTab"),
});

const historyRoute = createRoute({
  getParentRoute: () => treeNodeRoute,
  path: "history",
  validateSearch: historySearch,
  component: lazyRouteComponent(() => import("../history/HistoryTab"), "HistoryTab"),
});

const plannedChangesRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/quota-changes",
  validateSearch: plannedChangesSearch,
  component: lazyRouteComponent(() => import("../planned/PlannedChangesPage"), "PlannedChangesPage"),
});

const draftRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/quota-changes/new",
  validateSearch: draftSearch,
  component: lazyRouteComponent(() => import("../planned/DraftPage"), "DraftPage"),
});

const plannedChangeRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/quota-changes/$plannedId",
  validateSearch: plannedChangeSearch,
  component: lazyRouteComponent(() => import("../planned/PlannedChangePage"), "PlannedChangePage"),
});

const requestsRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/requests",
  validateSearch: requestsSearch,
  component: lazyRouteComponent(() => import("../requests/RequestsPage"), "RequestsPage"),
});

const policyRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/policy",
  validateSearch: policySearch,
  component: lazyRouteComponent(() => import("../policy/PolicyPage"), "PolicyPage"),
});

const creditsRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/credits",
  validateSearch: creditsSearch,
  component: lazyRouteComponent(() => import("../credits/CreditsPage"), "CreditsPage"),
});

const fairShareRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/fair-share",
  validateSearch: sharesSearch,
  component: lazyRouteComponent(() => import("../shares/FairSharePage"), "FairSharePage"),
});

const capacityRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/capacity",
  validateSearch: sharesSearch,
  component: lazyRouteComponent(() => import("../shares/CapacityPage"), "CapacityPage"),
});

const budgetsRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/budgets",
  component: lazyRouteComponent(() => import("../budgets/BudgetsPage"), "BudgetsPage"),
});

const adjustmentsRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/adjustments",
  component: lazyRouteComponent(() => import("../adjustments/AdjustmentsPage"), "AdjustmentsPage"),
});

const periodsRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/periods",
  validateSearch: periodsSearch,
  component: lazyRouteComponent(() => import("../periods/PeriodsPage"), "PeriodsPage"),
});

const jobsRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/jobs",
  validateSearch: jobsSearch,
  component: lazyRouteComponent(() => import("../jobs/JobsPage"), "JobsPage"),
});

const jobRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/jobs/$jobId",
  validateSearch: jobSearch,
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

const schedulesRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/schedules",
  component: lazyRouteComponent(() => import("../schedules/SchedulesPage"), "SchedulesPage"),
});

const scheduleRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/schedules/$scheduleId",
  component: lazyRouteComponent(() => import("../schedules/SchedulePage"), "SchedulePage"),
});

const templatesRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/templates",
  component: lazyRouteComponent(() => import("../templates/TemplatesPage"), "TemplatesPage"),
});

const submitRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/submit",
  validateSearch: submitSearch,
  component: lazyRouteComponent(() => import("../submit/SubmitPage"), "SubmitPage"),
});

const chargebackRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/chargeback",
  validateSearch: chargebackSearch,
  component: lazyRouteComponent(() => import("../billing/ChargebackPage"), "ChargebackPage"),
});

const reconciliationRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/reconciliation",
  validateSearch: reconciliationSearch,
  component: lazyRouteComponent(() => import("../billing/ReconciliationPage"), "ReconciliationPage"),
});

const pricesRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/prices",
  validateSearch: pricesSearch,
  component: lazyRouteComponent(() => import("../prices/PricesPage"), "PricesPage"),
});

const chargebackJobsRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/chargeback/jobs",
  validateSearch: chargebackJobsSearch,
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
  validateSearch: clusterSearch,
  component: lazyRouteComponent(() => import("../clusters/ClusterPage"), "ClusterPage"),
});

const addClusterRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/add-cluster",
  validateSearch: addClusterSearch,
  component: lazyRouteComponent(() => import("../clusters/AddClusterPage"), "AddClusterPage"),
});

const decisionsRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/decisions",
  validateSearch: decisionsSearch,
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

const noticesRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/notices",
  validateSearch: noticesSearch,
  component: lazyRouteComponent(() => import("../notices/NoticesPage"), "NoticesPage"),
});

const noticePreferencesRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/notices/preferences",
  component: lazyRouteComponent(() => import("../notices/PreferencesPage"), "PreferencesPage"),
});

const announcementsRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/announcements",
  component: lazyRouteComponent(() => import("../announcements/AnnouncementsPage"), "AnnouncementsPage"),
});

const maintenanceRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/maintenance",
  component: lazyRouteComponent(() => import("../maintenance/MaintenancePage"), "MaintenancePage"),
});

const webhooksRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/notices/webhooks",
  validateSearch: webhooksSearch,
  component: lazyRouteComponent(() => import("../notices/WebhooksPage"), "WebhooksPage"),
});

const auditRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/audit",
  validateSearch: auditSearch,
  component: lazyRouteComponent(() => import("../audit/AuditPage"), "AuditPage"),
});

const peopleRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/people",
  validateSearch: peopleSearch,
  component: lazyRouteComponent(() => import("../people/PeoplePage"), "PeoplePage"),
});

const organizationsRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/organizations",
  component: lazyRouteComponent(() => import("../organizations/OrganizationsPage"), "OrganizationsPage"),
});

const signInRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/sign-in",
  validateSearch: signInSearch,
  component: lazyRouteComponent(() => import("../signin/SignInPage"), "SignInPage"),
});

const guideRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/guide",
  validateSearch: guideSearch,
  component: lazyRouteComponent(() => import("../guide/GuidePage"), "GuidePage"),
});

const guideDocumentRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/guide/$document",
  validateSearch: guideSearch,
  component: lazyRouteComponent(() => import("../guide/GuidePage"), "GuidePage"),
});

const deviceRoute = createRoute({
  getParentRoute: () => shellRoute,
  path: "/device",
  validateSearch: deviceSearch,
  component: lazyRouteComponent(() => import("../device/DevicePage"), "DevicePage"),
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
    treeNodeRoute.addChildren([treeNodeIndexRoute, historyRoute, membersRoute, structureRoute]),
    plannedChangesRoute,
    draftRoute,
    plannedChangeRoute,
    policyRoute,
    requestsRoute,
    creditsRoute,
    fairShareRoute,
    capacityRoute,
    budgetsRoute,
    adjustmentsRoute,
    periodsRoute,
    jobsRoute,
    jobRoute,
    submitRoute,
    chargebackRoute,
    chargebackJobsRoute,
    reconciliationRoute,
    pricesRoute,
    clustersRoute,
    clusterRoute,
    addClusterRoute,
    decisionsRoute,
    cycleRoute,
    accessRoute,
    noticesRoute,
    noticePreferencesRoute,
    webhooksRoute,
    announcementsRoute,
    maintenanceRoute,
    auditRoute,
    schedulesRoute,
    scheduleRoute,
    templatesRoute,
    organizationsRoute,
    peopleRoute,
    signInRoute,
    guideRoute,
    guideDocumentRoute,
    deviceRoute,
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
