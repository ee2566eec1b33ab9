/** Credits of the company's teams in the pool h100, and the statement of a month. */
import type { CreditBank, CreditHistory, CreditLine, CreditStatement, CreditTransfer, PoolCredits, TeamCredits } from "../src/api/types";
import { GPU, iso, ORGANIZATION } from "./company.ts";

const GPU_HOUR = 3_600_000_000;
const DAY_S = 86_400;
const FLOOR_S = 7 * DAY_S;
const CAP_S = 14 * DAY_S;
const QUARTER_MS = 900_000;

export function theCreditBank(): CreditBank {
  return {
    organization: ORGANIZATION,
    is_on: true,
    cap_s: CAP_S,
    floor_s: FLOOR_S,
    switched_at: iso(Date.now() - 90 * DAY_S * 1000),
    version: 2,
  };
}

/** Credits of a team that is guaranteed some GPUs, with a balance in GPU-hours. */
export function someCredits(team: string, guaranteed: number, hours: number): TeamCredits {
  const unit = guaranteed * GPU * 1000;
  return {
    team: `${ORGANIZATION}/${team}`,
    guaranteed_mgpu: guaranteed * GPU,
    balance_ugpu_s: hours * GPU_HOUR,
    floor_ugpu_s: -FLOOR_S * unit,
    cap_ugpu_s: CAP_S * unit,
    transferable_ugpu_s: Math.max(0, hours) * GPU_HOUR,
    tenths: Math.floor((hours * GPU_HOUR) / (unit * (DAY_S / 10))),
  };
}

export function theCredits(change: Partial<PoolCredits> = {}): PoolCredits {
  return {
    organization: ORGANIZATION,
    pool: "h100",
    is_on: true,
    settled_until: iso(Math.floor(Date.now() / QUARTER_MS) * QUARTER_MS),
    common_ugpu_s: 6_048 * GPU_HOUR,
    teams: [
      someCredits("production/training", 120, 6_336),
      someCredits("production/inference", 280, -30_912),
      someCredits("research/nlp", 200, 14_880),
      someCredits("research/speech", 80, 2_304),
      someCredits("research/vision", 120, 2_304),
      someCredits("exploration/sandbox", 200, -960),
    ],
    ...change,
  };
}

/** Transfers of nlp: one done, one that waits for production, and one that waits for this person. */
export function theTransfers(): CreditTransfer[] {
  const now = Date.now();
  const transfer = (change: Partial<CreditTransfer> & Pick<CreditTransfer, "id" | "sender" | "recipient">): CreditTransfer => ({
    pool: "h100",
    amount_ugpu_s: 500 * GPU_HOUR,
    reason: "for the CVPR deadline",
    status: "pending",
    asked_by: `dora@${ORGANIZATION}`,
    asked_at: iso(now - DAY_S * 1000),
    expires_at: iso(now + 6 * DAY_S * 1000),
    decided_by: null,
    decided_at: null,
    note: "",
    may_approve: false,
    may_withdraw: false,
    ...change,
  });
  const [nlp, vision, inference] = ["research/nlp", "research/vision", "production/inference"].map(
    (path) => `${ORGANIZATION}/${path}`,
  ) as [string, string, string];
  return [
    transfer({ id: "0197a000-0000-7000-8000-0000000c0003", sender: inference, recipient: nlp, reason: "evaluation runs on behalf of inference", may_approve: true }),
    transfer({ id: "0197a000-0000-7000-8000-0000000c0002", sender: nlp, recipient: inference, amount_ugpu_s: 240 * GPU_HOUR, may_withdraw: true }),
    transfer({
      id: "0197a000-0000-7000-8000-0000000c0001",
      sender: nlp,
      recipient: vision,
      status: "done",
      expires_at: null,
      asked_at: iso(now - 5 * DAY_S * 1000),
      decided_at: iso(now - 5 * DAY_S * 1000),
    }),
  ];
}

const LINES: readonly [day: number, kind: CreditLine["kind"], other: string, hours: number][] = [
  [1, "dividend", "", 1_120],
  [4, "lent", "research/speech", -1_152],
  [7, "lent", "production/inference", 2_310],
  [11, "expired", "", -480],
  [14, "common", "", -2_080],
  [14, "lent", "production/inference", 1_950],
  [16, "above_cap", "", -500],
  [21, "lent", "production/inference", 1_640],
  [21, "lent", "production/training", 240],
  [22, "refund", "production/inference", -180],
  [23, "correction", "", 180],
  [25, "lent", "production/inference", 1_490],
];
const REASON = "Use from 2026-11-21 14:00 to 14:15 UTC changed (serve-chat: a node failed).";

/** A month that begins with 10,342 GPU-hours and ends with 14,880; `month` as "2026-11", or the present one. */
export function aCreditStatement(team: string, month: string | null): CreditStatement {
  const name = month ?? iso(Date.now()).slice(0, 7);
  const start = Date.parse(`${name}-01T00:00:00Z`);
  const dayAfter = (days: number) => iso(start + days * DAY_S * 1000).slice(0, 10);
  const opening = 10_342;
  let balance = opening;
  const lines = LINES.map(([day, kind, other, hours]) => {
    balance += hours;
    return {
      day: dayAfter(day - 1),
      kind,
      other: other === "" ? "" : `${ORGANIZATION}/${other}`,
      amount_ugpu_s: hours * GPU_HOUR,
      balance_ugpu_s: balance * GPU_HOUR,
      reason: kind === "refund" || kind === "correction" ? REASON : "",
      expires_on: hours > 0 && (kind === "lent" || kind === "dividend") ? dayAfter(day + 91) : null,
    };
  });
  const monthBefore = (months: number) =>
    iso(Date.UTC(new Date(start).getUTCFullYear(), new Date(start).getUTCMonth() - months, 1)).slice(0, 10);
  const lot = (months: number, days: number, hours: number) => ({
    earned_in: monthBefore(months),
    last_day: dayAfter(days),
    amount_ugpu_s: hours * GPU_HOUR,
  });
  const earned = (months: number, ...from: [string, number][]) => ({
    month: monthBefore(months),
    earned: from.map(([other, hours]) => ({ other: other && `${ORGANIZATION}/${other}`, amount_ugpu_s: hours * GPU_HOUR })),
  });
  return {
    team,
    pool: "h100",
    start: iso(start),
    end: iso(Date.UTC(new Date(start).getUTCFullYear(), new Date(start).getUTCMonth() + 1, 1)),
    opening_ugpu_s: opening * GPU_HOUR,
    closing_ugpu_s: balance * GPU_HOUR,
    lines,
    notices: [
      { last_day: dayAfter(24), amount_ugpu_s: 400 * GPU_HOUR, days: 7, given_at: iso(start + 18 * DAY_S * 1000) },
      { last_day: dayAfter(29), amount_ugpu_s: 220 * GPU_HOUR, days: 30, given_at: iso(start) },
    ],
    expiring: [lot(3, 24, 400), lot(3, 29, 220), lot(2, 40, 1_940), lot(1, 70, 3_570), lot(0, 100, 8_750)],
    earned_in: [
      earned(3, ["production/inference", 3_100], ["research/speech", 90], ["", 40]),
      earned(2, ["production/inference", 2_400]),
      earned(1, ["production/inference", 3_000], ["production/training", 1_210]),
      earned(0, ["production/inference", 7_390], ["", 1_120], ["production/training", 240]),
    ],
    borrowing: [
      { ...JOBS[0], day: dayAfter(3), amount_ugpu_s: 1_152 * GPU_HOUR, attempts: 1 },
      { ...JOBS[1], day: dayAfter(13), amount_ugpu_s: 1_900 * GPU_HOUR, attempts: 7 },
      { ...JOBS[0], day: dayAfter(13), amount_ugpu_s: 120 * GPU_HOUR, attempts: 7 },
    ],
  };
}

const JOBS = [
  { job: "0197a000-0000-7000-8000-0000000a0044", job_name: "sweep-44", attempt: 1 },
  { job: "0197a000-0000-7000-8000-0000000a0007", job_name: "pretrain-7b", attempt: 2 },
] as const;

/** The days of the statement until the 25th, with a job on hold and a forecast for the end of the month. */
export function aCreditHistory(team: string, month: string | null): CreditHistory {
  const statement = aCreditStatement(team, month);
  const days = Array.from({ length: 25 }, (_, place) => {
    const day = iso(Date.parse(statement.start) + place * DAY_S * 1000).slice(0, 10);
    const before = statement.lines.filter((line) => line.day <= day).at(-1);
    return { day, balance_ugpu_s: before?.balance_ugpu_s ?? statement.opening_ugpu_s };
  });
  const unit = 200 * GPU * 1000;
  return {
    team,
    pool: statement.pool,
    settled_until: iso(Date.parse(statement.start) + 24.4 * DAY_S * 1000),
    opening_ugpu_s: statement.opening_ugpu_s,
    balance_ugpu_s: statement.closing_ugpu_s,
    floor_ugpu_s: -FLOOR_S * unit,
    cap_ugpu_s: CAP_S * unit,
    held_ugpu_s: 32 * GPU_HOUR,
    pending_ugpu_s: 240 * GPU_HOUR,
    days,
    borrowing: [
      { job: "0197a000-0000-7000-8000-0000000a0009", job_name: "ablate-9", attempt: 1, day: days[24]?.day ?? "", amount_ugpu_s: 32 * GPU_HOUR, attempts: 1 },
    ],
    forecast: {
      last_day: iso(Date.parse(statement.end) - 1000).slice(0, 10),
      low_ugpu_s: 13_900 * GPU_HOUR,
      middle_ugpu_s: 15_660 * GPU_HOUR,
      high_ugpu_s: 17_280 * GPU_HOUR,
      flow_ugpu_s: 1_400 * GPU_HOUR,
      expiring_ugpu_s: 620 * GPU_HOUR,
    },
  };
}
