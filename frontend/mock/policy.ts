/** The company's rules of service. */
import type { InstallationPolicy, Policy, PriorityClass, SecondPersonPolicy, TimeLimit } from "../src/api/types";
import { aProblem, type MockAnswer, type MockRequest } from "./http.ts";
import { thePriorityClasses } from "./company.ts";

export interface TheRules {
  policy: Policy;
  classes: PriorityClass[];
  installation: InstallationPolicy;
  limits: TimeLimit[];
  secondPerson: SecondPersonPolicy;
}

export function theRules(): TheRules {
  return {
    policy: {
      organization: "ai-company",
      rank: ["ai-company/production", "ai-company/research"],
      grace_period_s: 300,
      fair_share_half_life_s: 604_800,
      spare_order: "credits_then_fair_share",
      min_run_s: 600,
      preemptions_max: 100,
      skips_blocked_within_team: true,
      time_zone: "UTC",
      version: 4,
    },
    classes: thePriorityClasses(),
    limits: [
      aLimit(1, { pool: "h100", default_s: 86_400, longest_s: 604_800 }),
      aLimit(2, { node: "ai-company/research", organization: "ai-company", longest_s: 259_200 }),
      aLimit(3, { priority_class: "low", organization: "ai-company", default_s: 14_400 }),
    ],
    secondPerson: {
      organization: "ai-company",
      stopped_jobs_min: null,
      moved_mgpu_max: null,
      guards_rules: false,
      allows_emergency: false,
      changed_by: null,
      changed_at: null,
      version: 1,
      can_edit: true,
    },
    installation: {
      grace_period_s_max: 3600,
      starts_max: 1000,
      reclaims_max: 100,
      claim_overdue_s: 600,
      credit_floor_s: 604_800,
      reservations_max: 8,
      reservation_horizon_s: 604_800,
      min_run_s: 600,
      preemptions_max: 100,
      costly_loss_s: 14_400,
      version: 1,
    },
  };
}

/** Reads or changes one set of rules, in its version. */
export function rules(found: { version: number }, { method, body, headers }: MockRequest): MockAnswer {
  if (method === "PATCH") {
    if (headers["if-match"] !== `"v${found.version}"`) {
      return aProblem(412, "stale_version", "Somebody else changed this first.", { current: { ...found } });
    }
    Object.assign(found, body, { version: found.version + 1 });
  }
  return { status: 200, body: { ...found } };
}

/** Lists, makes, changes and removes classes; jobs are or were of those that there are from the start. */
export function priorityClasses(stored: TheRules, request: MockRequest, id: string | undefined): MockAnswer {
  const found = stored.classes.find((each) => each.id === id);
  if (found === undefined && request.method === "POST") {
    const given = request.body as Partial<PriorityClass> & { name: string };
    if (stored.classes.some((each) => each.name === given.name)) {
      return aProblem(409, "conflict", `ai-company has a priority class ${given.name} already. Change that one.`);
    }
    const made = { ...thePriorityClasses()[2], ...given, id: `01935000-0000-7000-8000-00000000ff${stored.classes.length}0`, version: 1 };
    stored.classes.push(made as PriorityClass);
    return { status: 201, body: made };
  }
  if (found === undefined) return { status: 200, body: { items: stored.classes, next: null } };
  if (request.method === "DELETE") {
    if (thePriorityClasses().some((each) => each.id === id)) {
      return aProblem(409, "conflict", `Jobs use or used the class ${found.name}, so it cannot be removed. Retire it instead.`);
    }
    stored.classes = stored.classes.filter((each) => each !== found);
    return { status: 204 };
  }
  return rules(found, request);
}

function aLimit(number: number, change: Partial<TimeLimit>): TimeLimit {
  return {
    id: `01935000-0000-7000-8000-00000000ee${number}0`,
    pool: null,
    node: null,
    priority_class: null,
    organization: null,
    default_s: null,
    longest_s: null,
    can_edit: true,
    version: 1,
    ...change,
  };
}

/** Lists, makes, changes and removes time limits. */
export function timeLimits(stored: TheRules, request: MockRequest, id: string | undefined, can_edit: boolean): MockAnswer {
  const found = stored.limits.find((each) => each.id === id);
  if (found === undefined && request.method === "POST") {
    const made = aLimit(stored.limits.length + 1, request.body as Partial<TimeLimit>);
    stored.limits.push(made);
    return { status: 201, body: made };
  }
  if (found === undefined) return { status: 200, body: { items: stored.limits.map((each) => ({ ...each, can_edit })), next: null } };
  if (request.method === "DELETE") {
    stored.limits = stored.limits.filter((each) => each !== found);
    return { status: 204 };
  }
  return rules(found, request);
}
