/** A REST API made of the company's story. Shared by `npm run dev:mock` and the tests. */
import type { Announcement, Attempt, AttemptCosts, ChangeRequestDetail, CreditBank, CreditTransfer, ExtensionPlan, Job, JobAlternatives, JobDetail, JobFiles, JobPlan, JobRequest, LogChunk, LogSearchPage, LogSummary, MaintenanceWindow, MovePreview, Notice, NoticePreferences, OpenWork, PlannedChange, Quarantine, Quota, RateCard, Scheduler, SecondFactors, Session, TreeNode } from "../src/api/types";
import { aChargeback, theClosedMonths, theGroups, theIdle, theMoves } from "./groups.ts";
import {
  aSession,
  iso,
  POOLS,
  theClusters,
  theScheduler,
  theClusterUsers,
  theNodes,
  thePlacements,
  theAcceptedDifferences,
  theQuotaPushes,
  theQuotas,
  theSessions,
  theTokens,
  theUsers,
  TREE,
  uuid,
} from "./company.ts";
import { theAuditEvents } from "./audit.ts";
import { aRateCard, rateCards } from "./prices.ts";
import { anAdjustment, aDispute, theAdjustments, theDisputes, thresholds } from "./adjustments.ts";
import { budgetDefaults, budgetEffects, aBudgetDetail, theBudgetAlerts, theBudgets, userCaps } from "./budgets.ts";
import { aCreditHistory, aCreditStatement, theCreditBank, theCredits, theTransfers } from "./credits.ts";
import { beginAtProvider, deviceLogin, groupMappings, identityProvider, scim, signInOptions } from "./identity.ts";
import kinds from "./cluster-kinds.json" with { type: "json" };
import { anEntitlement } from "./entitlement.ts";
import { aCapacity, anExplainedFairShare, theSummaries } from "./shares.ts";
import { aHistory } from "./history.ts";
import { theMetrics, theUnused } from "./metrics.ts";
import { aJob, anExplanation, theHistory, theJobs, theReasons } from "./jobs.ts";
import { theCycles, theDecisionLines, theDecisions } from "./decisions.ts";
import { may } from "../src/session/access.ts";
import { aProblem, page, type MockAnswer, type MockRequest } from "./http.ts";
import { secondFactors, signInPolicy, someFactors } from "./secondFactors.ts";
import { webhooks } from "./webhooks.ts";
import { answerNotices, theNotices, thePreferences } from "./notices.ts";
import { codes, periods, statements } from "./periods.ts";
import { announcements } from "./announcements.ts";
import { maintenance, theWindows } from "./maintenance.ts";
import { requests, theRequests } from "./requests.ts";
import { plannedChanges, thePlannedChanges } from "./planned.ts";
import { priorityClasses, rules, theRules, timeLimits, type TheRules } from "./policy.ts";
import { organizations } from "./organizations.ts";
import { newNode, renamedNode, treeImport } from "./treeFiles.ts";
import { invitations, newServiceAccount, roleGrants, theMembers, theMemberTotals, theRoles } from "./members.ts";
import { aReconciliation, theReconciliations } from "./reconciliation.ts";
import { theChargeAudits } from "./chargeAudits.ts";
import { deliveries } from "./deliveries.ts";
import { anExport, exportPolicy, theExports } from "./exports.ts";
import { theRunsOf, theSchedules } from "./schedules.ts";
import { theTemplates } from "./templates.ts";
import { theDay } from "./today.ts";

export interface Company {
  session: Session | null;
  hasAdministrator: boolean;
  quotas: Quota[];
  planned: PlannedChange[];
  requests: ChangeRequestDetail[];
  rules: TheRules;
  bank: CreditBank;
  scheduler: Scheduler;
  quarantine: Quarantine;
  cards: RateCard[];
  announcements: Announcement[];
  windows: MaintenanceWindow[];
  notices: Notice[];
  noticePreferences: NoticePreferences;
  factors: SecondFactors;
}

const NO_QUARANTINE: Quarantine = {
  is_quarantined: false,
  sentence: "",
  began_at: null,
  reason: null,
  adopted: null,
  strangers: null,
  silent_clusters: null,
};

export function aCompany(change: Partial<Company> = {}): Company {
  return { session: aSession(), hasAdministrator: true, quotas: theQuotas(), planned: thePlannedChanges(), requests: theRequests(), rules: theRules(), bank: theCreditBank(), scheduler: theScheduler(), quarantine: NO_QUARANTINE, cards: [aRateCard()], announcements: [], windows: theWindows(), notices: theNotices(), noticePreferences: thePreferences(), factors: someFactors(), ...change };
}

function isWithin(path: string, above: string | null): boolean {
  return above === null || path === above || path.startsWith(`${above}/`);
}

/** Archiving, moving and deleting a node; answered, but not remembered. */
function tree(request: MockRequest, id = "", action = ""): MockAnswer {
  const { method, query } = request;
  const node = TREE.find((each) => each.id === id);
  if (node === undefined) return aProblem(404, "not-found", "It does not exist, or you may not see it.");
  if (method === "DELETE")
    return aProblem(
      409,
      "conflict",
      `${node.path} has jobs, bills. Only what was never used can be deleted. Archive it instead: its history and bills stay readable.`,
    );
  if (action === "invitations") return invitations(request);
  if (action === "import") return treeImport(request);
  if (action === "service-accounts") return newServiceAccount(request, node.path);
  if (action === "members") return page(theMembers(node.path), query);
  if (action === "member-totals") return { status: 200, body: theMemberTotals(node.path) };
  if (action === "move" && method === "POST") return { status: 200, body: { ...node, clusters_to_push: ["slurm-a"] } };
  if (method === "POST") return { status: 200, body: { ...node, archived_at: action === "archive" ? iso(Date.now()) : null } };
  const work = openWork(theJobs().filter(({ team }) => isWithin(team, node.path)));
  if (action === "move") return { status: 200, body: { ...work, ...movePreview(node, query.get("parent") ?? "") } };
  return { status: 200, body: { node, ...work } };
}

/** What of the jobs has to be decided before something is archived or deactivated. */
function openWork(there: ReturnType<typeof theJobs>) {
  const waits = there.filter(({ state }) => state === "queued" || state === "held");
  const runs = there.filter(({ state }) => state === "running" || state === "preempting");
  const named = runs.map(({ id, name, team, user, state }) => ({ id, name, team, user, state }));
  return { waiting: waits.length, running: runs.length, running_jobs: named };
}

function movePreview(node: TreeNode, parent: string): Omit<MovePreview, keyof Omit<OpenWork, "node">> {
  const quotas = theQuotas();
  const quotaOf = (path: string | null) => quotas.find((quota) => quota.node === path);
  const moved = quotaOf(node.path);
  const share = (path: string | null, change: number) => {
    const quota = quotaOf(path);
    return quota === undefined
      ? null
      : {
          guaranteed_mgpu: quota.guaranteed_mgpu,
          reserve_before_mgpu: quota.reserve_mgpu,
          reserve_after_mgpu: quota.reserve_mgpu + change,
        };
  };
  const role = (path: string | null) => ({
    user: `${path?.split("/").at(-1) ?? ""}-admin@ai-company`,
    name: "Admin",
    role: "department_admin",
    given_on: path ?? "",
  });
  const mgpu = moved?.guaranteed_mgpu ?? 0;
  const joins = share(parent, -mgpu);
  const name = parent.split("/").at(-1) ?? "";
  const problem =
    joins !== null && joins.reserve_after_mgpu < 0
      ? `${node.slug} would be guaranteed ${mgpu / 1000} GPUs, but ${name} has ${joins.guaranteed_mgpu / 1000} and guarantees all of them to its other teams; 0 are left. Lower one of these first.`
      : "";
  return {
    node,
    parent,
    path: `${parent}/${node.slug}`,
    guarantees: moved
      ? [
          {
            pool: moved.pool,
            device: moved.device,
            guaranteed_mgpu: mgpu,
            guaranteed_percent: moved.guaranteed_percent,
            leaves: share(node.parent, mgpu),
            joins,
            problem,
          },
        ]
      : [],
    gained: [role(parent)],
    gained_count: 1,
    lost: [role(node.parent)],
    lost_count: 1,
    clusters_to_push: ["slurm-a"],
    problem,
  };
}

/** Lists transfers of credits, makes one inside research and asks for others, and decides. */
function transfers({ method, query, body, path }: MockRequest, id: string | undefined): MockAnswer {
  const all = theTransfers();
  const [first] = all as [CreditTransfer];
  if (method === "GET") {
    const team = query.get("team");
    const status = query.get("status");
    return page(
      all.filter((each) => (team === null || [each.sender, each.recipient].includes(team)) && (status === null || each.status === status)),
      query,
    );
  }
  if (id === undefined) {
    const given = body as Pick<CreditTransfer, "sender" | "recipient" | "amount_ugpu_s" | "reason">;
    const isInside = given.recipient.split("/")[1] === given.sender.split("/")[1];
    return { status: 201, body: { ...first, ...given, status: isInside ? "done" : "pending" } };
  }
  const found = all.find((each) => each.id === id) ?? first;
  const status = path.endsWith("/approve") ? "approved" : found.may_withdraw ? "withdrawn" : "rejected";
  return { status: 200, body: { ...found, status, ...(body as { note: string }) } };
}

/** Answers one request; changes of quotas and of the session are kept in `company`. */
export function answer(company: Company, request: MockRequest): MockAnswer {
  const { method, query } = request;
  const path = request.path.replace(/^\/api\/v1/, "");
  if (path === "/session") return session(company, request);
  if (path === "/session/second-factor") return secondStep(company, request);
  if (path === "/sign-in-options") return signInOptions(request);
  if (path === "/session/provider") return beginAtProvider(request);
  if (path === "/password-links/use") return passwordLink(request);
  if (path === "/installation") return { status: 200, body: { has_administrator: company.hasAdministrator } };
  if (company.session === null) return aProblem(401, "unauthenticated", "Sign in first.");
  const [, collection = "", id, action] = path.split("/");
  switch (collection) {
    case "policy":
      return rules(company.rules.installation, request);
    case "organizations":
      if (action === "identity-provider") return identityProvider(request);
      if (action === "sign-in-policy") return signInPolicy(request);
      if (action === "group-mappings") return groupMappings(request);
      if (action === "scim") return scim(request);
      if (action === "policy") return rules(company.rules.policy, request);
      if (action === "second-person") {
        company.rules.secondPerson.can_edit = may(company.session, "manage_quota", "ai-company");
        return rules(company.rules.secondPerson, request);
      }
      if (action === "adjustment-policy") return thresholds(request);
      if (action === "export-policy") return exportPolicy(request);
      if (action === "credit-bank") return rules(company.bank, request);
      if (action === "periods") return periods(request);
      if (action === "accounting-codes") return codes(request);
      if (method === "PATCH") return renamedNode(request, id);
      return organizations(request, id);
    case "departments":
    case "teams":
      if (method === "POST") return newNode(request, collection === "teams" ? "team" : "department");
      if (method === "PATCH") return renamedNode(request, id);
      return page(
        TREE.filter((node) => `${node.kind}s` === collection),
        query,
      );
    case "tree":
      return tree(request, id, action);
    case "pools":
      return pools(request, id, action);
    case "adjustments":
      if (request.method !== "POST") return page(theAdjustments(), query);
      return { status: id === undefined || id === "" ? 201 : 200, body: anAdjustment(9, { status: action === undefined ? "pending" : action === "approve" ? "approved" : "rejected" }) };
    case "disputes":
      if (request.method !== "POST") return page(theDisputes(), query);
      return { status: action === undefined ? 201 : 200, body: aDispute(9, { status: action === undefined ? "open" : action === "accept" ? "accepted" : "declined" }) };
    case "accounting-codes":
      return codes(request);
    case "statements":
      return statements(id, action);
    case "budgets": {
      const budget = theBudgets().find((each) => each.id === id);
      return budget === undefined ? page(theBudgets(), query) : { status: 200, body: aBudgetDetail(budget) };
    }
    case "budget-alerts":
      return page(theBudgetAlerts(), query);
    case "credits":
      if (id === "transfers") return transfers(request, action);
      if (id === "history") return { status: 200, body: aCreditHistory(query.get("team") ?? "", query.get("month")) };
      if (id === "statement") return { status: 200, body: aCreditStatement(query.get("team") ?? "", query.get("month")) };
      return { status: 200, body: theCredits({ is_on: company.bank.is_on }) };
    case "unused-resources":
      return { status: 200, body: theUnused(query.get("node") ?? "") };
    case "history": {
      const found = aHistory(id ?? "", request.query);
      return found === null ? aProblem(404, "not-found", "Not found") : { status: 200, body: found };
    }
    case "entitlement":
      return { status: 200, body: anEntitlement(query.get("team") ?? "", company.quotas) };
    case "fair-share":
      return { status: 200, body: anExplainedFairShare(query.get("node") ?? "", query.get("pool") ?? "") };
    case "node-summaries":
      return { status: 200, body: theSummaries(query.get("node") ?? "", query.get("pool") ?? "") };
    case "capacity":
      return { status: 200, body: aCapacity(query.get("pool") ?? "") };
    case "today":
      return { status: 200, body: theDay(query.get("team")) };
    case "scheduler":
      return { status: 200, body: company.scheduler };
    case "cluster-kinds":
      return page(kinds, query);
    case "clusters":
      return clusters(request, id, action);
    case "nodes":
      return nodes(request, id, action);
    case "priority-classes":
      return priorityClasses(company.rules, request, id);
    case "time-limits":
      return timeLimits(company.rules, request, id, may(company.session, "manage_quota", "ai-company"));
    case "budget-defaults":
      return budgetDefaults(request, id);
    case "user-caps":
      return userCaps(request, id);
    case "tokens":
      if (method === "POST") {
        const { user } = request.body as { user?: string };
        const [token] = theTokens(user ?? undefined);
        return { status: 201, body: { ...token, name: (request.body as { name?: string }).name ?? token?.name, secret: "tdg_9fK2exampleOnlyNotAToken" } };
      }
      return method === "DELETE" ? { status: 204 } : page(theTokens(query.get("user") ?? undefined), query);
    case "device-logins":
      return deviceLogin(request);
    case "sessions":
      if (method === "POST") return { status: 200, body: { ended: 1 } };
      return method === "DELETE" ? { status: 204 } : page(theSessions(query.get("user") ?? undefined), query);
    case "second-factors":
      return secondFactors(company, request);
    case "users":
      if (action === "second-factors") return { status: 200, body: { removed: 1 } };
      return users(request, id, action);
    case "password":
      return password(company, request);
    case "invitations":
      return invitations(request);
    case "roles":
      return page(theRoles(), query);
    case "role-grants":
      return roleGrants(request, id);
    case "quotas":
      return quotas(company, request, id, action);
    case "requests":
      return requests(company.requests, request, id, action);
    case "quota-changes":
      return plannedChanges(company, request, id, action);
    case "decisions":
      return page(theDecisionLines(query), query);
    case "cycles": {
      const cycle = theCycles().find((each) => each.id === id);
      return cycle === undefined ? page(theCycles(), query) : { status: 200, body: cycle };
    }
    case "jobs":
      return jobs(request, id, action);
    case "job-actions":
      return jobAction(request, id);
    case "rate-cards":
      return rateCards(company.cards, request);
    case "reports":
      return reports(request, path);
    case "quarantine":
      return { status: 200, body: company.quarantine };
    case "reconciliations":
      return reconciliations(request, id);
    case "charge-audits":
      return page(theChargeAudits().filter(({ month }) => month === request.query.get("month")), request.query);
    case "deliveries":
    case "delivery-schedules":
    case "delivery-targets":
      return deliveries(collection, request);
    case "exports":
      return request.method === "POST" ? { status: 201, body: anExport() } : page(theExports(), request.query);
    case "job-views":
      return views(request);
    case "job-templates":
      return templates(request, id);
    case "schedules":
      return schedules(request, id, action);
    case "announcements":
      return announcements(company.announcements, request, id);
    case "maintenance-windows":
      return maintenance(company.windows, request, id, action);
    case "webhooks":
    case "webhook-deliveries":
      return webhooks(request, id, action);
    case "notices":
      return answerNotices(request, company, id);
    case "group-mappings":
      return groupMappings(request);
    case "scim-tokens":
      return scim(request);
    case "audit-events":
      return auditEvents(request);
  }
  return aProblem(404, "not_found", "Not found.");
}

function session(company: Company, { method, body }: MockRequest): MockAnswer {
  if (method === "DELETE") {
    company.session = null;
    return { status: 204 };
  }
  if (method === "POST") {
    const { login, password } = body as { login: string; password: string };
    if (login === "with-factor") return aProblem(401, "second_factor_required", "The password is right. Now send a code.");
    if (password === "wrong") {
      return aProblem(401, "unauthenticated", "This login and password do not belong together.");
    }
    company.session = aSession();
  }
  return company.session === null
    ? aProblem(401, "unauthenticated", "Sign in first.")
    : { status: 200, body: company.session };
}

function users({ method, body }: MockRequest, id?: string, action?: string): MockAnswer {
  const found = theUsers();
  const user = found.find((each) => each.id === id);
  if (action === "deactivate") {
    return method === "POST"
      ? { status: 200, body: { ...user, is_active: false } }
      : { status: 200, body: openWork(theJobs().filter((job) => job.user === user?.username)) };
  }
  if (method === "PATCH") return { status: 200, body: { ...user, ...(body as object) } };
  if (method === "GET") return page(found, new URLSearchParams());
  if (id === undefined) return { status: 201, body: { ...found[1], ...(body as object) } };
  return {
    status: 201,
    body: {
      user: user?.login,
      expires_at: new Date(Date.now() + 3_600_000).toISOString(),
      sent_to: null,
      link: "/set-password#tdl_exampleOnly",
    },
  };
}

/** The second step of the login "with-factor"; a code of zeros is wrong. */
function secondStep(company: Company, { body }: MockRequest): MockAnswer {
  if ((body as { code: string }).code === "000000")
    return aProblem(401, "unauthenticated", "The code is wrong, has expired or was used before.");
  company.session = aSession();
  return { status: 200, body: company.session };
}

function password(company: Company, { body }: MockRequest): MockAnswer {
  const { old_password } = body as { old_password: string };
  if (old_password === "wrong") {
    return aProblem(400, "invalid_request", "The old password is wrong.", {
      errors: [{ pointer: "/old_password", detail: "is wrong", code: "invalid" }],
    });
  }
  company.session = aSession();
  return { status: 200, body: { login: company.session.user.login } };
}

function passwordLink({ body }: MockRequest): MockAnswer {
  const { secret } = body as { secret: string };
  return secret === "used"
    ? aProblem(404, "not_found", "This link does not work: it was used, has expired, or was replaced.")
    : { status: 200, body: { login: "bob@ai-company" } };
}

function quotas(company: Company, request: MockRequest, id?: string, action?: string): MockAnswer {
  const { method, query } = request;
  if (id === undefined) {
    const pool = query.get("pool");
    return page(
      company.quotas.filter(
        (quota) => (pool === null || quota.pool === pool) && isWithin(quota.node, query.get("subtree")),
      ),
      query,
    );
  }
  const found = company.quotas.find((quota) => quota.id === id);
  if (found === undefined) return aProblem(404, "not_found", "There is no such quota here.");
  if (action === "changes") {
    return page(
      [
        {
          id: "c1",
          at: iso(Date.now() - 86_400_000 * 3),
          actor: "ai-company/olga",
          before: { guaranteed_mgpu: found.guaranteed_mgpu - 20_000, weight: 1 },
          after: { guaranteed_mgpu: found.guaranteed_mgpu, weight: 1 },
          reason: "new nodes went to research",
        },
      ],
      query,
    );
  }
  if (method === "PATCH") {
    if (request.headers["if-match"] !== `"v${found.version}"`) {
      return aProblem(412, "stale_version", "Somebody else changed this quota first.", { current: found });
    }
    const patch = request.body as Partial<Quota>;
    const parent = company.quotas.find(({ node }) => node === found.parent);
    if (patch.guaranteed_percent && parent) {
      patch.guaranteed_mgpu = Math.floor((parent.guaranteed_mgpu * Number(patch.guaranteed_percent)) / 100);
    }
    Object.assign(found, patch, { version: found.version + 1 });
  }
  return { status: 200, body: found };
}

function pools({ method, query, body }: MockRequest, id?: string, action?: string): MockAnswer {
  const pool = POOLS.find((each) => each.id === id);
  if (method === "PATCH") return { status: 200, body: { ...pool, ...(body as object) } };
  if (method === "POST" && id === undefined) {
    return { status: 201, body: { ...POOLS[0], id: uuid(39), capacity_mgpu: 0, ...(body as object) } };
  }
  if (method === "DELETE") {
    return aProblem(409, "conflict", `${pool?.name} has jobs, quotas, so deletion is not possible. Archive it instead.`);
  }
  if (action === undefined) return page(POOLS, query);
  if (method === "GET") return { status: 200, body: { waiting: 0, running: 0, running_jobs: [] } };
  return { status: 200, body: { ...pool, archived_at: action === "archive" ? iso(Date.now()) : null } };
}

function clusters({ method, query, body, path }: MockRequest, id?: string, action?: string): MockAnswer {
  if (id === "check" || action === "check") {
    const [, slurm] = theClusters();
    return { status: 200, body: { is_answered: true, message: "", api_version: "v0.0.44", pools: slurm?.pools ?? [] } };
  }
  if (method === "DELETE" && action === undefined) return { status: 204 };
  if (id === undefined) {
    const made = { ...theClusters()[1], ...(body as object), id: "01a1fd00-0000-7000-8000-00000000aaaa", pools: [] };
    return method === "POST" ? { status: 201, body: made } : page(theClusters(), query);
  }
  const cluster = theClusters().find((each) => each.id === id);
  const part = path.split("/")[6];
  switch (action) {
    case "archive":
    case "restore": {
      const isArchived = action === "archive";
      if (method === "GET") return { status: 200, body: { waiting: 0, running: 0, running_jobs: [] } };
      return { status: 200, body: { ...cluster, is_enabled: !isArchived, archived_at: isArchived ? iso(Date.now()) : null } };
    }
    case "placements":
      return page(thePlacements(id), query);
    case "users":
      if (method === "DELETE") return { status: 204 };
      if (method === "PUT") return { status: 200, body: { id: "u9", ...(body as object) } };
      return page(theClusterUsers(), query);
    case "accepted-differences":
      return method === "DELETE" ? { status: 204 } : page(theAcceptedDifferences(), query);
    case "quota-pushes": {
      if (method === "POST") return { status: 201, body: { ...theQuotaPushes()[0], ...(body as object) } };
      const push = theQuotaPushes().find((each) => each.id === part);
      return push === undefined ? page(theQuotaPushes(), query) : { status: 200, body: push };
    }
  }
  return { status: 200, body: { ...cluster, ...(body as object) } };
}

function nodes({ method, query, body }: MockRequest, id?: string, action?: string): MockAnswer {
  if (id === undefined) return page(theNodes(query.get("cluster") ?? ""), query);
  const node = theNodes("slurm-a").find((each) => each.id === id);
  if (node === undefined) return aProblem(404, "not_found", "There is no such node.");
  if (method === "POST") {
    node.request = {
      action: action === "drain" ? "drain" : "resume",
      reason: (body as { reason?: string } | null)?.reason ?? "",
      evict_grace_s: (body as { evict_grace_s?: number } | null)?.evict_grace_s ?? null,
      requested_by: "root@platform",
      requested_at: iso(Date.now()),
      state: "pending",
      answered_at: null,
      message: "",
    };
    return { status: 202, body: node };
  }
  return { status: 200, body: node };
}

/** The current attempt, and before a later one the first, which was preempted on borrowed GPUs. */
function theAttempts({ current_attempt: current, submitted_at: submitted }: JobDetail): Attempt[] {
  if (current === null) return [];
  if (current.number === 1) return [current];
  const [fromMs, toMs] = [Date.parse(submitted), Date.parse(current.started_at ?? current.granted_at)];
  const at = (share: number) => iso(fromMs + share * (toMs - fromMs));
  const first: Attempt = {
    ...current,
    id: `${current.id.slice(0, -4)}0001`,
    number: 1,
    state: "ended",
    granted_at: at(0.1),
    started_at: at(0.12),
    checkpoint_at: at(0.7),
    notice_at: at(0.78),
    grace_until: at(0.85),
    ended_at: at(0.8),
    released_at: at(0.8),
    stop_reason: "preempted",
    outcome: "stopped",
    exit_codes: { "0": 0 },
    guaranteed_mgpu: 0,
    borrowed_mgpu: current.mgpu,
    message: "",
  };
  return [first, current];
}

const STATES_OF_ACTION: Record<string, readonly string[]> = {
  cancel: ["held", "queued", "starting", "running", "preempting"],
  hold: ["queued"],
  release: ["held"],
  requeue: ["running"],
};

/** An action on many jobs, or its preview: ana changes her own, and those of others are refused. */
function jobAction({ query, body }: MockRequest, id?: string): MockAnswer {
  const { action, jobs: chosen } = body as { action: string; jobs?: string[] | null };
  if (id !== "preview") {
    const items = (chosen ?? []).map((job) => ({ job, state: "cancelled", problem: null }));
    return { status: 200, body: { items, changed: items.length, refused: 0 } };
  }
  const found = theJobs().filter(({ id: each, user }) => chosen?.includes(each) ?? (query.get("user") ?? user) === user);
  const suited = found.filter(({ state }) => STATES_OF_ACTION[action]?.includes(state));
  const own = suited.filter(({ user }) => user === "ana");
  return {
    status: 200,
    body: {
      jobs: own.map((job) => job.id),
      states: counted(own.map(({ state }) => state)),
      users: counted(own.map(({ user }) => user)),
      own: own.length,
      forbidden: suited.length - own.length,
      unsuited: chosen ? counted(found.filter((job) => !suited.includes(job)).map(({ state }) => state)) : {},
    },
  };
}

function counted(names: readonly string[]): Record<string, number> {
  return Object.fromEntries([...new Set(names)].map((name) => [name, names.filter((each) => each === name).length]));
}

/** Jobs in the order that the list asks for; by submission they are already. */
function sorted(all: Job[], sort: string | null): Job[] {
  const key = (sort ?? "").replace("-", "");
  if (key !== "name" && key !== "state" && key !== "user" && key !== "team") return all;
  const sign = sort?.startsWith("-") ? -1 : 1;
  return [...all].sort((a, b) => sign * (a[key] < b[key] ? -1 : a[key] > b[key] ? 1 : 0));
}

function jobs(request: MockRequest, id?: string, action?: string): MockAnswer {
  const { method, query } = request;
  if (id === undefined) {
    if (method === "POST") return submit(request);
    const states = query.get("state")?.split(",");
    const name = query.get("q");
    const runsAs = query.get("usage_class");
    return page(
      sorted(
        theJobs(),
        query.get("sort"),
      ).filter(
        (job) =>
          (runsAs === null || (job.current_attempt?.borrowed_mgpu ?? 0) > 0 === (runsAs === "borrowed")) &&
          (query.get("priority_class") === null || job.priority_class === query.get("priority_class")) &&
          (states?.includes(job.state) ?? true) &&
          isWithin(job.team, query.get("team")) &&
          (query.get("user") === null || job.user === query.get("user")) &&
          (name === null || job.name.includes(name) || (name.length >= 4 && job.id.endsWith(name))),
      ),
      query,
    );
  }
  const job = theJobs().find((each) => each.id === id);
  if (job === undefined) return aProblem(404, "not_found", "There is no such job here.");
  switch (action) {
    case "logs":
      if (request.path.endsWith("/search")) return { status: 200, body: logMatches(query) };
      return { status: 200, body: logChunk(query, job.state !== "running") };
    case "log-summary":
      return { status: 200, body: aLogSummary({ attempt: job.attempt, rank: Number(query.get("rank") ?? 0) }) };
    case "files":
      return { status: 200, body: theFiles(job.attempt) };
    case "history":
      return page(theHistory(job), query);
    case "estimate":
      return {
        status: 200,
        body: {
          as_of: iso(Date.now()),
          estimated_start: { earliest: iso(Date.now() + 60_000), latest: iso(Date.now() + 240_000), method: "look_ahead" },
          until: iso(Date.now() + 240_000),
          asked_until: iso(Date.now() + 86_400_000),
          assumed_ends: 2,
        },
      };
    case "extension-plan":
      return { status: 200, body: anExtensionPlan(job, request.body as { by_s?: number; time_limit_s?: number }) };
    case "extend": {
      const { time_limit_s } = request.body as { time_limit_s: number };
      return { status: 200, body: { ...job, time_limit_s } };
    }
    case "alternatives":
      return { status: 200, body: theAlternatives(job) };
    case "reasons":
      return { status: 200, body: { items: theReasons(job) } };
    case "decisions":
      return { status: 200, body: { items: theDecisions().filter((each) => each.job.id === job.id) } };
    case "metrics":
      return { status: 200, body: theMetrics(job) };
    case "attempt-costs":
      return { status: 200, body: theAttemptCosts(job) };
    case "attempts":
      return page(theAttempts(job), query);
    case "cancel":
      return { status: 200, body: { ...job, state: "cancelled", can: [] } };
    case "requeue":
      return { status: 200, body: { ...job, can: ["logs"] } };
    case "hold":
      return { status: 200, body: { ...job, state: "held", can: ["release", "cancel"] } };
    case "release":
      return { status: 200, body: { ...job, state: "queued" } };
  }
  return { status: 200, body: job };
}

function anExtensionPlan(job: JobDetail, asked: { by_s?: number; time_limit_s?: number }): ExtensionPlan {
  const before = job.time_limit_s ?? 0;
  const limit = asked.time_limit_s ?? before + (asked.by_s ?? 0);
  const end = (seconds: number) => (job.started_at === null ? null : iso(Date.parse(job.started_at) + seconds * 1000));
  const next = theJobs().find(({ state }) => state === "queued");
  return {
    job: job.id,
    before_s: before,
    time_limit_s: limit,
    ends_before: end(before),
    ends_at: end(limit),
    notice_at: end(limit - 300),
    mgpu: job.mgpu,
    cost_nano: Math.round((job.mgpu / 1000) * 2_400_000_000 * ((limit - before) / 3600)),
    unbilled_nano: 0,
    price_mode: "pay_per_use",
    currency: "EUR",
    budgets: budgetEffects(200),
    delays:
      next === undefined
        ? []
        : [
            {
              job: next.id,
              name: next.name,
              team: next.team,
              user: next.user,
              before: end(before),
              after: end(limit),
              later_s: limit - before,
              is_at_least: false,
            },
          ],
    delayed_jobs: next === undefined ? 0 : 1,
    until: iso(Date.now() + 4 * 86_400_000),
    is_cut: false,
    notes: ["Budget Training of ai-company/research has too little left and would be exceeded."],
    unseen: limit - before > 86_400 ? "The look-ahead covers 4 d, and the new end is later. More waiting jobs may be delayed than it shows." : "",
    refusal: limit - before > 86_400 ? "It would delay 1 waiting job that you may not manage, by up to 2 d. Ask for less, or ask somebody who may manage these jobs to extend it." : "",
  };
}

function theAlternatives(job: JobDetail): JobAlternatives {
  const plan = (startsNow: boolean) => aPlan({}, job, startsNow);
  const request = (change: Partial<JobRequest>) => ({
    team: job.team,
    name: job.name,
    pool: job.pool,
    gpus_per_node: job.mgpu_per_node / 1000,
    nodes: job.node_count,
    time_limit_s: job.time_limit_s ?? undefined,
    priority_class: job.priority_class,
    is_preemptible: job.is_preemptible,
    is_requeueable: job.is_requeueable,
    notice_signal: job.notice_signal,
    requeue_on: job.requeue_on,
    folder: job.folder ?? undefined,
    output_file: job.output_file ?? undefined,
    error_file: job.error_file ?? undefined,
    appends_output: job.appends_output,
    is_singleton: job.is_singleton,
    requeue_max: job.requeue_max,
    cost_cap_nano: job.cost_cap_nano ?? undefined,
    signal_ahead_s: job.signal_ahead_s ?? undefined,
    signals_shell_only: job.signals_shell_only,
    environment: job.environment ?? undefined,
    script: job.script ?? undefined,
    ...change,
  });
  return {
    as_of: iso(Date.now()),
    sentence: "1 of 3 alternatives would start now.",
    untried: 0,
    items: [
      { label: "With 48 GPUs on 6 nodes", changes: { nodes: 6 }, request: request({ nodes: 6 }), plan: plan(true) },
      {
        label: "With a time limit of 1 h",
        changes: { time_limit_s: 3600 },
        request: request({ time_limit_s: 3600 }),
        plan: plan(false),
      },
      {
        label: "In pool a100",
        changes: { pool: "a100" },
        request: request({ pool: "a100" }),
        plan: {
          ...plan(false),
          fits: false,
          explanation: anExplanation({ code: "never_fits", sentence: "No node of a100 is so large.", victims: [] }),
        },
      },
    ],
  };
}

export function aLogSummary(change: Partial<LogSummary> = {}): LogSummary {
  return {
    attempt: 1,
    rank: 0,
    node: "a-17",
    ranks: 12,
    streams: [
      { stream: "stdout", has_output: true },
      { stream: "stderr", has_output: false },
    ],
    error_stream: null,
    error_lines: [],
    ...change,
  };
}

function theAttemptCosts(job: JobDetail): AttemptCosts {
  const items = theAttempts(job).map(({ id, number }) => ({ attempt: id, mgpu_s: number * 288_000_000, cost_nano: number * 160_000_000_000 }));
  return { currency: "EUR", items };
}

function theFiles(attempt: number): JobFiles {
  const files: [string, number][] = [
    ["checkpoints/step-000800/optimizer.bin", 442_381_234_567],
    ["checkpoints/step-000800/weights.safetensors", 140_002_118_656],
    ["metrics.csv", 88_012],
    [`samples/${"a-prompt-with-a-very-long-name-".repeat(4)}.txt`, 912],
  ];
  return {
    attempt,
    items: files.map(([name, size_bytes], i) => ({ name, size_bytes, modified_at: iso(Date.now() - i * 3_600_000) })),
    next: null,
    is_cut: false,
    left_out: 2,
  };
}

function logChunk(query: URLSearchParams, isFinal: boolean): LogChunk {
  const lines = Math.floor((Date.now() / 1000) % 100_000);
  const text = Array.from(
    { length: 60 },
    (_, i) => `step ${lines - 60 + i}  loss ${(2 + Math.sin((lines + i) / 9) / 5).toFixed(4)}  tokens/s 412,330\n`,
  ).join("");
  const offset = Number(query.get("offset"));
  const isStart = offset < 0;
  const last = `step ${lines}  loss ${(2 + Math.sin(lines / 9) / 5).toFixed(4)}  tokens/s 412,330\n`;
  const shown = query.get("stream") === "stderr" ? "" : isStart ? text : isFinal ? "" : last;
  const from = isStart ? 900_000 : offset;
  return {
    attempt: Number(query.get("attempt") ?? 1),
    rank: Number(query.get("rank") ?? 0),
    stream: query.get("stream") === "stderr" ? "stderr" : "stdout",
    offset: from,
    next_offset: from + shown.length,
    text: shown,
    is_final: isFinal,
    is_truncated: false,
    ranks: 12,
    times: shown
      .split("\n")
      .slice(0, -1)
      .map((_, line, { length }) => ({ line, at: iso(Date.now() - (length - line) * 1000) })),
  };
}

/** One line of the made-up log, on every rank that is searched. */
function logMatches(query: URLSearchParams): LogSearchPage {
  const rank = query.get("rank");
  const ranks = rank === null ? [0, 1, 2] : [Number(rank)];
  return {
    attempt: Number(query.get("attempt") ?? 1),
    ranks: 12,
    items: ranks.map((each) => ({
      rank: each,
      stream: "stdout",
      offset: 480 * (each + 1),
      text: `step ${each + 12}  ${query.get("q") ?? ""}  tokens/s 412,330`,
      at: iso(Date.now() - 3_600_000),
    })),
    next: null,
    scanned_bytes: 900_000,
    untimed: 0,
  };
}

function submit({ query, body }: MockRequest): MockAnswer {
  const request = body as JobRequest;
  const gpus = request.gpus ?? (request.gpus_per_node ?? 8) * (request.nodes ?? 1);
  if (gpus > 1000) {
    return aProblem(400, "invalid_request", "The job could never run.", {
      errors: [{ pointer: "/gpus", detail: "Pool h100 has 1,000 GPUs; ask for fewer.", code: "never_fits" }],
    });
  }
  const job = aJob({
    name: request.name ?? "job-17",
    team: request.team,
    mgpu: Math.round(gpus * 1000),
    mgpu_min: Math.round((request.gpus_min ?? gpus) * 1000),
    time_limit_s: request.time_limit_s ?? null,
  });
  if (query.get("dry_run") !== "true") return { status: 201, body: job };
  return { status: 200, body: aPlan(request, job, gpus <= 20) };
}

function aPlan(request: Partial<JobRequest>, job: JobDetail, startsNow: boolean): JobPlan {
  const [, last, atOnce] = /^0-(\d+)(?:%(\d+))?$/.exec(request.array ?? "") ?? [];
  // What waits waits for the least.
  const planned = startsNow ? job.mgpu : job.mgpu_min;
  return {
    job: {
      ...job,
      notice_signal: request.notice_signal ?? "TERM",
      requeue_on: request.requeue_on ?? [],
      folder: request.folder ?? null,
      output_file: request.output_file ?? null,
      error_file: request.error_file ?? null,
      appends_output: request.appends_output ?? false,
      requeue_max: request.requeue_max ?? 10,
      cost_cap_nano: request.cost_cap_nano ?? null,
      signal_ahead_s: request.signal_ahead_s ?? null,
      signals_shell_only: request.signals_shell_only ?? false,
      held: request.held ?? false,
      begin_at: request.begin_at ?? null,
      is_singleton: request.is_singleton ?? false,
      tasks: last === undefined ? 1 : Number(last) + 1,
      tasks_at_once: atOnce === undefined ? null : Number(atOnce),
    },
    notes: [...readSbatch(request.sbatch ?? ""), ...sharedOut(request.gpus ?? 0)],
    fits: true,
    would_start_now: startsNow,
    explanation: startsNow
      ? anExplanation({ code: "would_start", sentence: "It would start now.", victims: [] })
      : anExplanation(),
    mgpu: planned,
    guaranteed_mgpu: planned,
    borrowed_mgpu: 0,
    cluster: startsNow ? "slurm-a" : null,
    pool: job.pool,
    cost_per_hour_nano: planned * 2_000_000,
    unbilled_per_hour_nano: 0,
    price_mode: "pay_per_use" as const,
    currency: "EUR",
    cost_cap_after_s: request.cost_cap_nano == null ? null : Math.ceil((request.cost_cap_nano * 3600) / (planned * 2_000_000)),
    budgets: budgetEffects(50),
  };
}

function sharedOut(gpus: number): JobPlan["notes"] {
  if (gpus <= 8 || gpus % 8 !== 0) return [];
  const detail = `No node has ${gpus} GPUs, so this job takes ${gpus / 8} nodes with 8 GPUs each.`;
  return [{ line: 0, text: "", verdict: "understood", detail }];
}

function readSbatch(script: string): JobPlan["notes"] {
  return script.split("\n").flatMap((text, i) => {
    if (!text.startsWith("#SBATCH")) return [];
    const verdict = /--(gpus|time|nodes|job-name)/.test(text)
      ? ("understood" as const)
      : /--(mail|output)/.test(text)
        ? ("ignored" as const)
        : ("refused" as const);
    const detail = {
      understood: "",
      ignored: "Tidegate keeps the output itself.",
      refused: "This option is not supported; remove the line.",
    }[verdict];
    return [{ line: i + 1, text, verdict, detail }];
  });
}

function reconciliations({ method, query }: MockRequest, id?: string): MockAnswer {
  if (method === "POST") return { status: 202, body: { ...theReconciliations()[0], is_requested: true } };
  if (id === undefined) return page(theReconciliations(), query);
  return { status: 200, body: aReconciliation(id) };
}

/** Saved views: one of mine, and one that is shared. Changes are answered, but not remembered. */
function views({ method, query, body }: MockRequest): MockAnswer {
  if (method === "DELETE") return { status: 204 };
  const mine = {
    id: "01935000-0000-7000-8000-0000000ee001",
    name: "mine",
    parameters: { user: "ana", sort: "-submitted_at" },
    user: "ana",
    shared_with: null,
    created_at: iso(Date.now()),
    can: ["delete"],
  };
  if (method === "POST") return { status: 201, body: { ...mine, ...(body as object) } };
  const shared = {
    ...mine,
    id: "01935000-0000-7000-8000-0000000ee002",
    name: "large jobs",
    parameters: { state: "running", sort: "-gpus" },
    shared_with: "ai-company/research/vision",
    can: [],
  };
  return page([mine, shared], query);
}

/** Templates; changes are answered, but not remembered. */
function templates({ method, query, body }: MockRequest, id = ""): MockAnswer {
  const known = theTemplates();
  if (method === "DELETE") return { status: 204 };
  if (method === "POST") return { status: 201, body: { ...known[0], ...(body as object) } };
  if (id === "") {
    const team = query.get("team") ?? "";
    return page(known.filter((each) => each.team.startsWith(team)), query);
  }
  const found = known.find((each) => each.id === id);
  if (found === undefined) return aProblem(404, "not_found", "There is no such template that you can see.");
  return { status: 200, body: { ...found, ...(body as object | undefined) } };
}

/** Schedules; changes are answered, but not remembered. A new one is nightly. */
function schedules({ method, query, body }: MockRequest, id = "", part = ""): MockAnswer {
  const known = theSchedules();
  if (id === "" && method === "GET") return page(known, query);
  if (id === "") {
    const [first] = known;
    if (query.get("dry_run") !== "true") return { status: 201, body: { ...first, notes: [] } };
    const { request } = body as { request: JobRequest };
    const runs = [1, 2, 3].map((day) => iso(Date.now() + day * 86_400_000));
    return { status: 200, body: { ...first, next_runs: runs, plan: aPlan(request, aJob({ name: "nightly-eval" }), true) } };
  }
  const found = known.find((schedule) => schedule.id === id);
  if (found === undefined) return aProblem(404, "not_found", "There is no such schedule that you can see.");
  if (method === "DELETE") return { status: 204 };
  if (part === "runs") return page(theRunsOf(found), query);
  const runs = found.next_at === null ? [] : [0, 1, 2].map((day) => iso(Date.parse(found.next_at ?? "") + day * 86_400_000));
  return { status: 200, body: { ...found, ...(body as object | undefined), next_runs: runs, template: templateOf(found.id), request: null } };
}

/** The first schedule is from a template. */
function templateOf(scheduleId: string): { id: string; name: string } | null {
  const [schedule] = theSchedules();
  const [, template] = theTemplates();
  return scheduleId === schedule?.id && template ? { id: template.id, name: template.name } : null;
}

function auditEvents({ query }: MockRequest): MockAnswer {
  const [actor, action, kind] = ["actor", "action", "subject_kind"].map((name) => query.get(name));
  const found = theAuditEvents().filter(
    (event) =>
      (actor === null || event.actor === actor) &&
      (action === null || event.action === action) &&
      (kind === null || event.subject.kind === kind),
  );
  return page(found, query);
}

function reports({ query }: MockRequest, path: string): MockAnswer {
  const start = query.get("start") ?? "";
  const end = query.get("end") ?? "";
  if (path.endsWith("/jobs")) {
    const row = aChargeback(start, end).rows.find(({ keys }) => isWithin(keys.team ?? "", query.get("node")));
    if (row === undefined) return page([], query);
    const usage = (["borrowed", "unpaid", "fault"] as const).find((one) => one === query.get("usage_class")) ?? "guaranteed";
    const whole = row[`${usage}_mgpu_s`];
    const cost = usage === "fault" ? 0 : row[`${usage}_cost_nano`];
    return page(
      [0.5, 0.3, 0.2].map((part, i) => ({
        job: theJobs()[i + 2]?.id ?? "",
        name: theJobs()[i + 2]?.name ?? "",
        team: row.keys.team ?? "",
        user: "ivo",
        pool: "h100",
        device: "gpu" as const,
        usage_class: usage,
        mgpu_s: Math.round(whole * part),
        cost_nano: Math.round(cost * part),
        attempts: i + 1,
        faults: usage === "fault" ? ["node_failed" as const] : [],
      })),
      query,
    );
  }
  if (path.endsWith("/moves")) return { status: 200, body: theMoves(start, end) };
  if (path.endsWith("/closed-months")) return { status: 200, body: theClosedMonths(start, end) };
  if (path.endsWith("/idle")) return { status: 200, body: theIdle(start, end, query.get("share") ?? "none") };
  return { status: 200, body: theGroups(start, end, (query.get("by") ?? "team,pool").split(",")) };
}
