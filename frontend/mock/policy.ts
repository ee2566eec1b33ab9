/** The company's rules of service. */
import type { InstallationPolicy, Policy, PriorityClass } from "../src/api/types";
import { aProblem, type MockAnswer, type MockRequest } from "./answer.ts";
import { thePriorityClasses } from "./company.ts";

export interface TheRules {
  policy: Policy;
  classes: PriorityClass[];
  installation: InstallationPolicy;
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
      version: 4,
    },
    classes: thePriorityClasses(),
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
