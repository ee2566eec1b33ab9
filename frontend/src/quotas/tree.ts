import type { Quota } from "../api/types";

export interface QuotaRow {
  quota: Quota;
  /** 0 for the topmost rows that I may see. */
  level: number;
  hasChildren: boolean;
}

/**
 * Rows in tree order, less what hides below a closed node. `quotas` comes parents first; a node
 * whose parent is not among them is a root here.
 */
export function quotaRows(quotas: readonly Quota[], closed: ReadonlySet<string>): QuotaRow[] {
  const known = new Set(quotas.map((quota) => quota.node));
  const parents = new Set(quotas.map((quota) => quota.parent));
  const levels = new Map<string, number>();
  const hidden = new Set<string>();
  const rows: QuotaRow[] = [];
  for (const quota of quotas) {
    const parent = quota.parent !== null && known.has(quota.parent) ? quota.parent : null;
    const level = parent === null ? 0 : (levels.get(parent) ?? 0) + 1;
    levels.set(quota.node, level);
    if (parent !== null && (hidden.has(parent) || closed.has(parent))) {
      hidden.add(quota.node);
      continue;
    }
    rows.push({ quota, level, hasChildren: parents.has(quota.node) });
  }
  return rows;
}

/** A tree of more nodes than this opens with its second level closed. */
const OPEN_MAX = 200;

/** What is closed before a reader has chosen: nothing, or what is below the second level of a large tree. */
export function closedAtFirst(quotas: readonly Quota[], shown: string | undefined): ReadonlySet<string> {
  if (quotas.length <= OPEN_MAX) return new Set();
  const roots = new Set(rootsOf(quotas).map(({ node }) => node));
  const isAbove = (node: string) => shown?.startsWith(`${node}/`) ?? false;
  return new Set(
    quotas.flatMap(({ parent }) => (parent !== null && !roots.has(parent) && !isAbove(parent) ? [parent] : [])),
  );
}

/** The style of a row's first cell at a level of the tree. Deep levels share one indent, so that a name has room. */
export function indented(level: number): { paddingLeft: string } {
  return { paddingLeft: `calc(10px + min(${level} * var(--indent), var(--indent-max)))` };
}

/** Parents directly followed by their children, siblings by path. */
export function inTreeOrder(quotas: readonly Quota[], compare: (a: string, b: string) => number): Quota[] {
  return [...quotas].sort((a, b) => compare(a.node, b.node));
}

/** The topmost quotas of a list: those whose parent is not in it. */
export function rootsOf(quotas: readonly Quota[]): Quota[] {
  const known = new Set(quotas.map((quota) => quota.node));
  return quotas.filter((quota) => quota.parent === null || !known.has(quota.parent));
}

/** The nodes between which GPUs are borrowed: the children of a single root, else the roots. */
export function peersOf(quotas: readonly Quota[]): Quota[] {
  const roots = rootsOf(quotas);
  const [only] = roots;
  if (roots.length !== 1 || only === undefined) return roots;
  const children = quotas.filter((quota) => quota.parent === only.node);
  return children.length > 0 ? children : roots;
}
