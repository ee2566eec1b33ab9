import type { PlannedChange, Session } from "../api/types";
import { may } from "../session/access";

type Edit = PlannedChange["edits"][number];

/** Path of the node directly above; "" is the platform. */
function parentOf(path: string): string {
  return path.slice(0, Math.max(0, path.lastIndexOf("/")));
}

/** Does the edit raise or clear a borrow limit that is set? That needs the right on the parent. */
function loosens({ set, current }: Edit): boolean {
  const { borrow_limit_mgpu: after } = set;
  const now = current.borrow_limit_mgpu;
  return after !== undefined && now !== null && (after === null || after > now);
}

/** The borrow limits that the reader may set so, and may not raise again: their nodes, and who can. */
export function onlyLowered(session: Session, change: PlannedChange): { nodes: string[]; who: string } | null {
  const found = change.edits.filter(
    ({ node, set, current }) =>
      typeof set.borrow_limit_mgpu === "number" &&
      (current.borrow_limit_mgpu === null || set.borrow_limit_mgpu < current.borrow_limit_mgpu) &&
      !may(session, "manage_quota", parentOf(node)),
  );
  return found.length === 0
    ? null
    : { nodes: found.map(({ node }) => node), who: administrators(found.map(({ node }) => parentOf(node))) };
}

/** Who has the rights to the edits that the reader lacks. */
export function whoCanApply(session: Session, change: PlannedChange): string {
  const needed = change.edits
    .map((edit) => {
      const { guaranteed_mgpu, guaranteed_percent, weight } = edit.set;
      const sharesOut = [guaranteed_mgpu, guaranteed_percent, weight].some((value) => value !== undefined);
      return sharesOut || loosens(edit) ? parentOf(edit.node) : edit.node;
    })
    .filter((path) => !may(session, "manage_quota", path));
  return administrators(needed.length === 0 ? [parentOf(change.node)] : needed);
}

function administrators(paths: readonly string[]): string {
  return [...new Set(paths)]
    .map((path) => (path === "" ? "a platform administrator" : `an administrator of ${path}`))
    .join(" and ");
}
