/** Audits of the charges: one month agrees, and another one differs in one sum. */
import type { components } from "../src/api/schema";

type ChargeAudit = components["schemas"]["ChargeAudit"];

export function aChargeAudit(changes: Partial<ChargeAudit> = {}): ChargeAudit {
  return {
    id: "01a1fd00-0000-7000-8000-0000000000a1",
    organization: "ai-company",
    month: "2026-11",
    audited_at: "2026-11-21T02:00:00Z",
    line_count: 12,
    difference_count: 0,
    difference_mgpu_s: 0,
    difference_nano: 0,
    differences: [],
    ...changes,
  };
}

export function theChargeAudits(): ChargeAudit[] {
  return [
    aChargeAudit(),
    aChargeAudit({
      id: "01a1fd00-0000-7000-8000-0000000000a2",
      month: "2026-10",
      difference_count: 1,
      difference_nano: 2,
      differences: [
        {
          pool: "a100-80g",
          usage_class: "borrowed",
          charged_mgpu_s: 3_600_000,
          audited_mgpu_s: 3_600_000,
          charged_nano: 1_234_567_890_125,
          audited_nano: 1_234_567_890_123,
        },
      ],
    }),
  ];
}
