import type { Today } from "../src/api/types";
import { GPU, iso, uuid } from "./company.ts";

const HOUR_S = 3600;
const EURO = 1_000_000_000;

/** The last 24 hours of nlp, as in the drawing of the lead's home. */
export function theDay(team: string | null): Today {
  const ago = (hours: number) => iso(Date.now() - hours * HOUR_S * 1000);
  const job = (n: number, name: string, user: string) => ({
    id: uuid(n),
    name,
    user,
    team: "ai-company/research/nlp",
    device: "gpu" as const,
  });
  const end = (n: number, name: string, user: string, how: Today["ends"][number]["how"], hours: number, gpus: number, ran: number) => ({
    ...job(n, name, user),
    how,
    attempt: 1,
    mgpu: gpus * GPU,
    ended_at: ago(hours),
    used_mgpu_s: gpus * GPU * ran * HOUR_S,
    end_reason: how === "failed" ? "exit_code" : null,
    exit_code: how === "failed" ? 137 : null,
    cost: { cost_nano: 2 * gpus * ran * EURO, unbilled_nano: 0, price_mode: "pay_per_use" as const, currency: "EUR" },
  });
  return {
    team,
    since: ago(24),
    until: ago(0),
    totals: [{ device: "gpu", attempts: 9, used_mgpu_s: 5568 * GPU * HOUR_S, lost_mgpu_s: 58 * GPU * HOUR_S }],
    waste: [
      {
        ...job(0x9004, "probe-long-context", "ana"),
        how: "failed",
        attempts: 3,
        has_checkpoint: false,
        lost_mgpu_s: 40 * GPU * HOUR_S,
        cost: { cost_nano: 80 * EURO, unbilled_nano: 0, price_mode: "pay_per_use", currency: "EUR" },
      },
      {
        ...job(0x9003, "tokenizer-ablation", "sam"),
        how: "preempted",
        attempts: 1,
        has_checkpoint: true,
        lost_mgpu_s: 18 * GPU * HOUR_S,
        cost: { cost_nano: 8 * EURO, unbilled_nano: 28 * EURO, price_mode: "commitment", currency: "EUR" },
      },
    ],
    ends: [
      end(0x9003, "tokenizer-ablation", "sam", "succeeded", 3, 40, 20),
      end(0x9004, "probe-long-context", "ana", "failed", 18, 64, 5),
    ],
    quota_changes: [
      {
        id: uuid(0x9101),
        at: ago(21),
        actor: "leo@ai-company",
        node: "ai-company/research/nlp",
        pool: "h100",
        before: { guaranteed_mgpu: 200 * GPU, guaranteed_percent: null, borrow_limit_mgpu: null, lend_limit_mgpu: null, weight: 1 },
        after: { guaranteed_mgpu: 200 * GPU, guaranteed_percent: null, borrow_limit_mgpu: 120 * GPU, lend_limit_mgpu: null, weight: 1 },
        reason: "Borrow at most 120 GPUs",
      },
    ],
  };
}
