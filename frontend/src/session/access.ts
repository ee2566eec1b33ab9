import type { Session, TreeNode } from "../api/types";

export type Permission =
  | "view_tree"
  | "view_jobs"
  | "view_job_content"
  | "submit_jobs"
  | "manage_jobs"
  | "manage_members"
  | "manage_structure"
  | "manage_quota"
  | "view_costs"
  | "manage_prices"
  | "view_audit"
  | "manage_clusters";

/** Is `path` the node `above` itself or below it? The empty path is the whole platform. */
export function isWithin(path: string, above: string): boolean {
  return above === "" || path === above || path.startsWith(`${above}/`);
}

/** May I do this at `path`? Without a path: anywhere at all. A grant covers its whole subtree. */
export function may(session: Session, permission: Permission, path?: string): boolean {
  return Object.entries(session.permissions).some(
    ([granted, permissions]) =>
      permissions.includes(permission) && (path === undefined || isWithin(path, granted)),
  );
}

/** The teams of `nodes` in which I may do this. An archived team takes nothing new. */
export function teamsWhereIMay(
  session: Session,
  permission: Permission,
  nodes: readonly TreeNode[],
): TreeNode[] {
  return nodes.filter(
    (node) => node.kind === "team" && node.archived_at === null && may(session, permission, node.path),
  );
}

/** An address of this site to go back to; anything else leads home. */
export function safeNext(next: string | undefined): string {
  if (next === undefined || !/^\/(?![/\\])/.test(next)) return "/";
  return next.startsWith("/login") ? "/" : next;
}
