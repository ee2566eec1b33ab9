import type { TreeImportPreview } from "../api/types";
import { DataTable } from "../ui/DataTable";
import { formatCount } from "../ui/units";
import { roleWords } from "./use";

/** The most rows that the page shows; the command shows all. */
const SHOWN_MAX = 200;

const ACTIONS: Record<TreeImportPreview["changes"][number]["action"], string> = {
  node_created: "create",
  node_renamed: "rename",
  node_moved: "move",
  node_archived: "archive",
  role_granted: "grant role",
  role_expiry_changed: "change expiry",
  role_revoked: "revoke role",
  person_invited: "invite",
  invitation_withdrawn: "withdraw invitation",
  quota_created: "give quota",
  quota_changed: "change quota",
};

/** The changes by a tree file, or the errors of its lines. Paths begin with the slug of the node: `above` is the path of its parent with a slash. */
export function TreeFilePreview({ found, above }: { found: TreeImportPreview; above: string }) {
  const short = (path: string) => (path.startsWith(above) ? path.slice(above.length) : path);
  const { changes, line_errors: errors } = found;
  return (
    <section className="stack" aria-label="Preview" aria-live="polite">
      {found.error_count > 0 && (
        <>
          <p className="bad-text" role="alert">
            {formatCount(found.error_count)} {found.error_count === 1 ? "error" : "errors"}. Nothing can be applied before
            these lines are correct.
          </p>
          <DataTable
            label="Errors"
            rows={errors}
            rowKey={({ line, sentence }) => `${line} ${sentence}`}
            columns={[
              { header: "Line", isRight: true, cell: ({ line }) => (line === 0 ? "file" : line) },
              { header: "Error", isHeading: true, className: "breaks", cell: ({ sentence }) => sentence },
            ]}
          />
        </>
      )}
      {found.error_count === 0 && changes.length === 0 && <p>The tree is as in the file already.</p>}
      {found.error_count === 0 && changes.length > 0 && (
        <>
          <p>
            {Object.entries(found.counts)
              .map(([action, count]) => `${formatCount(count)} ${ACTIONS[action as keyof typeof ACTIONS]}`)
              .join(" · ")}
          </p>
          <DataTable
            label="Changes"
            rows={changes.slice(0, SHOWN_MAX)}
            rowKey={({ action, path, user, role, pool }) => [action, path, user, role, pool].join(" ")}
            columns={[
              {
                header: "Change",
                cell: ({ action }) => ACTIONS[action],
                tone: ({ action }) => (REMOVALS.has(action) ? "bad-text" : undefined),
              },
              {
                header: "Node",
                isHeading: true,
                className: "breaks",
                title: ({ path }) => path,
                cell: ({ path, nodes_below: below }) =>
                  below > 0 ? `${short(path)} and ${formatCount(below)} below` : short(path),
              },
              {
                header: "Member or pool",
                className: "breaks",
                cell: ({ user, role, pool }) => pool || (user && `${user} · ${roleWords(role)}`),
              },
              { header: "Before", only: "wide", className: "breaks", cell: ({ before }) => short(before) },
              { header: "After", only: "wide", className: "breaks", cell: ({ after }) => short(after) },
              { header: "Line", isRight: true, only: "wide", cell: ({ line }) => (line === 0 ? "missing" : line) },
            ]}
          />
          {changes.length > SHOWN_MAX && (
            <p className="dim">
              {formatCount(changes.length - SHOWN_MAX)} more changes are not shown here. The command shows all of them.
            </p>
          )}
        </>
      )}
      <Missing count={found.missing_nodes} one="node" many="nodes" act="Archive nodes" />
      <Missing count={found.missing_roles} one="role or invitation" many="roles or invitations" act="Revoke roles" />
    </section>
  );
}

function Missing({ count, one, many, act }: { count: number; one: string; many: string; act: string }) {
  if (count === 0) return null;
  return (
    <p className="dim">
      {count === 1 ? `The file lacks 1 ${one}, which stays.` : `The file lacks ${formatCount(count)} ${many}, which stay.`}{" "}
      <em>{act} …</em> changes that.
    </p>
  );
}

const REMOVALS = new Set<string>(["node_archived", "role_revoked", "invitation_withdrawn"]);
