/** A made-up entitlement: a team that borrows, one that lends, and waits of the sizes that started. */
import type { Entitlement, FairShare, Quota, SizeStart } from "../src/api/types";
import { iso, uuid } from "./company.ts";

const SIZES = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];

export function aFairShare(change: Partial<FairShare> = {}): FairShare {
  return {
    weight: 100,
    weight_permille: 333,
    used_mgpu_s: 9_400_000_000,
    used_permille: 98,
    level_permille: 3_400,
    place: 1,
    siblings: 3,
    half_life_s: 604_800,
    ...change,
  };
}

function aStart(devices: number, quota: Quota): SizeStart {
  const mgpu = devices * 1000;
  const free = quota.guaranteed_mgpu - quota.use.in_use_mgpu;
  const kind = mgpu <= free ? "guaranteed" : mgpu <= 256_000 ? "borrowed" : mgpu <= 512_000 ? "reclaim" : "waits";
  const starts = kind === "guaranteed" || kind === "borrowed";
  return {
    devices,
    nodes: Math.max(1, devices / 8),
    kind,
    borrowed_mgpu: kind === "borrowed" ? mgpu - Math.max(0, free) : 0,
    cluster: starts ? "slurm-a" : null,
    latest: kind === "reclaim" ? iso(Date.now() + 300_000) : null,
    code: starts ? "would_start" : kind === "reclaim" ? "waiting_for_reclaim" : "waiting_for_free_gpus",
    sentence: starts ? "It would start now on slurm-a." : `It needs ${String(devices)} GPUs.`,
  };
}

export function anEntitlement(team: string, quotas: readonly Quota[]): Entitlement {
  const own = quotas.filter(({ node }) => node === team);
  const name = team.split("/").at(-1) ?? team;
  return {
    team,
    team_id: uuid(104),
    contacts: [
      { username: "leo", name: "Leo Brandt", role: "team_lead", node: team },
      { username: "dora", name: "Dora Weiss", role: "department_admin", node: team.split("/").slice(0, -1).join("/") },
    ],
    pools: own.map((quota) => {
      const { use } = quota;
      return {
        pool: quota.pool,
        device: quota.device,
        as_of: iso(Date.now() - 3_000),
        sentence: `${name} uses ${String((use.in_use_mgpu - use.borrowed_mgpu) / 1000)} of its ${String(quota.guaranteed_mgpu / 1000)} guaranteed GPUs; ${String(use.lent_mgpu / 1000)} are lent to others.`,
        guaranteed_mgpu: quota.guaranteed_mgpu,
        lend_limit_mgpu: quota.lend_limit_mgpu,
        borrow_limit_mgpu: quota.borrow_limit_mgpu,
        in_use_mgpu: use.in_use_mgpu,
        borrowed_mgpu: use.borrowed_mgpu,
        at_risk_mgpu: use.borrowed_mgpu,
        lent_mgpu: use.lent_mgpu,
        available_mgpu: use.available_mgpu,
        waiting_mgpu: use.waiting_mgpu,
        fair_share: aFairShare(),
        reclaimed: { jobs: 0, mgpu: 0, until: null },
        borrowers: use.lent_mgpu > 0 ? [{ node: "ai-company/production", mgpu: use.lent_mgpu }] : [],
        lenders: use.borrowed_mgpu > 0 ? [{ node: "ai-company/research", mgpu: use.borrowed_mgpu }] : [],
        starts: SIZES.map((devices) => aStart(devices, quota)),
        waits: [
          { devices: 1, jobs: 412, p50_s: 4, p95_s: 340 },
          { devices: 8, jobs: 96, p50_s: 75, p95_s: 5_400 },
          { devices: 64, jobs: 11, p50_s: 3_900, p95_s: 41_000 },
        ],
      };
    }),
  };
}
