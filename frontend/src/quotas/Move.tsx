import { RunningJobs } from "../jobs/RunningJobs";
import { Button, Modal, Select } from "@mantine/core";
import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { client, unwrap } from "../api/client";
import { movePreviewQuery, treeQuery } from "../api/queries";
import type { MovePreview, TreeNode } from "../api/types";
import { isWithin, may } from "../session/access";
import { useSession } from "../session/useSession";
import { CliLine } from "../ui/CliLine";
import { DataTable } from "../ui/DataTable";
import { Lines, QueryView } from "../ui/states";
import { toastDone, toastError, toastToDo } from "../ui/toast";
import { formatCount, formatGpuCount, formatGpus } from "../ui/units";
import { useReturnFocus } from "../ui/useReturnFocus";
import { useTreeChanged } from "./useTreeChanged";

/** Move the node at `path` to another parent. Nothing for a reader who may not, or without a place to move it to. */
export function Move({ path, onMoved }: { path: string; onMoved?: (path: string) => void }) {
  const session = useSession();
  const tree = useQuery(treeQuery);
  const [isAsked, setAsked] = useState(false);
  const node = tree.data?.find((each) => each.path === path);
  if (node?.parent == null || node.archived_at !== null) return null;
  const mayMove = (parent: string) => may(session, "manage_structure", parent);
  const parents = (tree.data ?? []).filter(
    (each) =>
      each.kind !== "team" &&
      each.archived_at === null &&
      each.organization === node.organization &&
      each.path !== node.parent &&
      !isWithin(each.path, node.path) &&
      mayMove(each.path),
  );
  if (!mayMove(node.parent) || parents.length === 0) return null;
  return (
    <section aria-label="Move">
      <h2>Move</h2>
      <p className="dim">To another parent, from now on. History and bills stay where they are.</p>
      <Button variant="default" onClick={() => setAsked(true)}>
        Move…
      </Button>
      {isAsked && <MoveDialog node={node} parents={parents} onMoved={onMoved} onClose={() => setAsked(false)} />}
    </section>
  );
}

/** Asks where to, and shows what that changes before anything is moved. */
function MoveDialog({
  node,
  parents,
  onMoved,
  onClose,
}: {
  node: TreeNode;
  parents: readonly TreeNode[];
  onMoved: ((path: string) => void) | undefined;
  onClose: () => void;
}) {
  useReturnFocus();
  const [parent, setParent] = useState<string | null>(null);
  return (
    <Modal
      opened
      onClose={onClose}
      size="lg"
      title={`Move ${node.path}?`}
      closeButtonProps={{ "aria-label": "Close" }}
    >
      <div className="stack">
        <Select
          label="New parent"
          placeholder="Choose a department or the organization"
          data={parents.map((each) => each.path)}
          value={parent}
          onChange={setParent}
          searchable
          data-autofocus
        />
        {parent === null ? (
          <div className="inline end">
            <Button variant="default" onClick={onClose}>
              Back
            </Button>
          </div>
        ) : (
          <Preview key={parent} node={node} parent={parent} onMoved={onMoved} onClose={onClose} />
        )}
      </div>
    </Modal>
  );
}

function Preview({
  node,
  parent,
  onMoved,
  onClose,
}: {
  node: TreeNode;
  parent: string;
  onMoved: ((path: string) => void) | undefined;
  onClose: () => void;
}) {
  const preview = useQuery(movePreviewQuery(node.id, parent));
  const changed = useTreeChanged();
  const move = useMutation({
    mutationFn: () =>
      unwrap(
        client.POST("/api/v1/tree/{tree_node_id}/move", {
          params: { path: { tree_node_id: node.id } },
          body: { parent },
        }),
      ),
    onSuccess: (moved) => {
      const done = `${node.path} is ${moved.path} now`;
      if (moved.clusters_to_push.length === 0) toastDone(done);
      else toastToDo(done, <ToPush clusters={moved.clusters_to_push} />);
      onMoved?.(moved.path);
      changed();
      onClose();
    },
    onError: toastError,
  });
  return (
    <QueryView query={preview} loading={<Lines count={5} label="Loading what changes" />}>
      {(found) => (
        <>
          <p>
            It becomes <b className="breaks">{found.path}</b> and counts there from now on. What it used until now
            stays with {node.parent}.
          </p>
          {found.problem !== "" && (
            <p className="bad-text" role="alert">
              {found.problem}
            </p>
          )}
          <Guarantees preview={found} from={node.parent ?? ""} />
          {found.running > 0 && <RunningJobs work={found} />}
          <p>
            {formatCount(found.running)} running {found.running === 1 ? "job runs" : "jobs run"} on;{" "}
            {formatCount(found.waiting)} waiting {found.waiting === 1 ? "job waits" : "jobs wait"} on.
          </p>
          <Roles title="Roles that are gained" roles={found.gained} count={found.gained_count} />
          <Roles title="Roles that are lost" roles={found.lost} count={found.lost_count} />
          {found.clusters_to_push.length > 0 && (
            <p className="dim">
              Waiting jobs cannot start on {found.clusters_to_push.join(", ")} afterwards before a platform administrator
              pushes the quotas there.
            </p>
          )}
          <CliLine command={`tidegate tree move ${node.path} --to ${parent} --yes`} />
          <div className="inline end">
            <Button variant="default" onClick={onClose}>
              Back
            </Button>
            <Button disabled={found.problem !== ""} loading={move.isPending} onClick={() => move.mutate()}>
              Move
            </Button>
          </div>
        </>
      )}
    </QueryView>
  );
}

/** Where quotas are to be pushed. Messages lie outside the router, so these are plain links. */
function ToPush({ clusters }: { clusters: readonly string[] }) {
  return (
    <>
      <p>Its waiting jobs cannot start on these clusters before a platform administrator pushes the quotas:</p>
      <ul>
        {clusters.map((name) => (
          <li key={name}>
            <a href={`/clusters/${encodeURIComponent(name)}`}>Push quotas to {name}</a>
          </li>
        ))}
      </ul>
    </>
  );
}

/** What of each parent's guarantee no child is guaranteed, before and after. */
function Guarantees({ preview, from }: { preview: MovePreview; from: string }) {
  if (preview.guarantees.length === 0) return <p className="dim">It has no quota, so it takes none along.</p>;
  return (
    <div style={{ overflowX: "auto" }}>
      <DataTable
        label="Guarantees"
        rows={preview.guarantees}
        rowKey={(each) => each.pool}
        columns={[
          { header: "Pool", isHeading: true, cell: (each) => each.pool },
          { header: "Takes along", cell: (each) => formatGpuCount(each.guaranteed_mgpu, each.device) },
          { header: <>Reserve of {lastOf(from)}</>, cell: (each) => reserve(each.leaves) },
          { header: <>Reserve of {lastOf(preview.parent)}</>, cell: (each) => reserve(each.joins) },
        ]}
      />
    </div>
  );
}

function reserve(share: MovePreview["guarantees"][number]["joins"]): string {
  if (share === null) return "no quota";
  return `${formatGpus(share.reserve_before_mgpu)} → ${formatGpus(share.reserve_after_mgpu)}`;
}

function lastOf(path: string): string {
  return path.split("/").at(-1) ?? path;
}

function Roles({ title, roles, count }: { title: string; roles: MovePreview["gained"]; count: number }) {
  if (count === 0) return null;
  if (roles.length === 0) {
    return (
      <p>
        {title}: {formatCount(count)}, of people whose roles you may not see
      </p>
    );
  }
  return (
    <div style={{ overflowX: "auto" }}>
      <DataTable
        label={title}
        rows={roles}
        rowKey={(each) => `${each.user} ${each.role}`}
        columns={[
          { header: title, isHeading: true, className: "breaks", cell: (each) => each.user },
          { header: "Role", cell: (each) => each.role.replaceAll("_", " ") },
          { header: "From", className: "breaks", cell: (each) => each.given_on },
        ]}
      />
      {count > roles.length && <p className="small dim">and {formatCount(count - roles.length)} more</p>}
    </div>
  );
}
