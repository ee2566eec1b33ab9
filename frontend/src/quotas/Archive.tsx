import { Button } from "@mantine/core";
import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { client, unwrap } from "../api/client";
import { treeQuery, workToArchiveQuery } from "../api/queries";
import type { TreeNode } from "../api/types";
import { WorkDialog } from "../jobs/WorkDialog";
import { may } from "../session/access";
import { useSession } from "../session/useSession";
import { CliLine } from "../ui/CliLine";
import { Time } from "../ui/Time";
import { toastDone, toastError } from "../ui/toast";
import { useTreeChanged } from "./useTreeChanged";

/** Archive or restore the node at `path`. Nothing for a reader who may do neither. */
export function Archive({ path }: { path: string }) {
  const session = useSession();
  const tree = useQuery(treeQuery);
  const [isAsked, setAsked] = useState(false);
  const node = tree.data?.find((each) => each.path === path);
  // An organization is archived by platform administrators only.
  if (node === undefined || !may(session, "manage_structure", node.parent === null ? "" : path)) return null;
  return (
    <section aria-label="Archive">
      <h2>Archive</h2>
      {node.archived_at === null ? (
        <>
          <p className="dim">Nothing new starts in an archived {node.kind}. History and bills stay.</p>
          <Button variant="default" c="var(--bad)" onClick={() => setAsked(true)}>
            Archive…
          </Button>
          {isAsked && <ArchiveDialog node={node} onClose={() => setAsked(false)} />}
        </>
      ) : (
        <Restore node={node} parent={tree.data?.find((each) => each.path === node.parent)} />
      )}
    </section>
  );
}

/** Asks what becomes of the jobs of a node, and archives it. */
export function ArchiveDialog({ node, onClose }: { node: TreeNode; onClose: () => void }) {
  return (
    <WorkDialog
      title={`Archive ${node.path}?`}
      work={useQuery(workToArchiveQuery(node.id))}
      act={(body) =>
        unwrap(client.POST("/api/v1/tree/{tree_node_id}/archive", { params: { path: { tree_node_id: node.id } }, body }))
      }
      done={`${node.path} is archived`}
      onDone={useTreeChanged()}
      until="the restore"
      command={`tidegate tree archive ${node.path}`}
      confirmLabel="Archive"
      onClose={onClose}
    >
      Nobody submits jobs to it, and nothing that waits there starts.
      {node.kind !== "team" && " Everything below it is archived with it."}
    </WorkDialog>
  );
}

function Restore({ node, parent }: { node: TreeNode; parent: TreeNode | undefined }) {
  const changed = useTreeChanged();
  const restore = useMutation({
    mutationFn: () =>
      unwrap(client.POST("/api/v1/tree/{tree_node_id}/restore", { params: { path: { tree_node_id: node.id } } })),
    onSuccess: () => {
      toastDone(`${node.path} is restored`);
      changed();
    },
    onError: toastError,
  });
  return (
    <>
      <p className="dim">
        Archived <Time at={node.archived_at ?? ""} show="both" />. Nothing is submitted or starts here.
      </p>
      {parent?.archived_at ? (
        <p className="dim">{parent.path} is archived, too. Restore it first.</p>
      ) : (
        <Button variant="default" loading={restore.isPending} onClick={() => restore.mutate()}>
          Restore
        </Button>
      )}
      <CliLine command={`tidegate tree restore ${node.path}`} />
    </>
  );
}
