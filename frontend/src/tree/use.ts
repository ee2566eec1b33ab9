import type { GroupMapping, Member, MemberTotals } from "../api/types";

/** GPUs of one pool that a member uses, in milli-GPU. */
export interface MemberUse {
  guaranteedMgpu: number;
  borrowedMgpu: number;
  /** null: no cap. */
  capMgpu: number | null;
}

export function memberUse(member: Member, pool: string | undefined): MemberUse {
  const found = member.use.find((each) => each.pool === pool);
  return {
    guaranteedMgpu: found?.guaranteed_mgpu ?? 0,
    borrowedMgpu: found?.borrowed_mgpu ?? 0,
    capMgpu: found?.cap_mgpu ?? null,
  };
}

/** The pools that any member uses or has a cap in, by name. */
export function poolsOf(members: readonly Member[], totals: MemberTotals): string[] {
  const names = [...totals.pools.map(({ pool }) => pool), ...members.flatMap(({ use }) => use.map(({ pool }) => pool))];
  return [...new Set(names)].sort();
}

/** The common right end of the bars. Caps count up to twice the largest use, so that none flattens all bars. */
export function scaleOf(uses: readonly MemberUse[]): number {
  const used = Math.max(1, ...uses.map((use) => use.guaranteedMgpu + use.borrowedMgpu));
  return Math.max(used, ...uses.map((use) => use.capMgpu ?? 0).filter((cap) => cap <= 2 * used));
}

/** GPUs in use, and those of them that are borrowed. */
export function sumOf(uses: readonly MemberUse[]): { inUseMgpu: number; borrowedMgpu: number } {
  return {
    inUseMgpu: uses.reduce((sum, use) => sum + use.guaranteedMgpu + use.borrowedMgpu, 0),
    borrowedMgpu: uses.reduce((sum, use) => sum + use.borrowedMgpu, 0),
  };
}

/** The roles that are given on a node. */
export const ROLES: readonly GroupMapping["role"][] = [
  "researcher",
  "team_lead",
  "department_admin",
  "organization_admin",
  "finance",
  "auditor",
];

export function roleWords(role: string): string {
  return role.replaceAll("_", " ");
}
