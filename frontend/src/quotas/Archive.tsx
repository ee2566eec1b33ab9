import { Button, Modal } from "@mantine/core";
import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { client, unwrap } from "../api/client";
import { treeQuery, workToArchiveQuery } from "../api/queries";
import type { Archiving, OpenWork, TreeNode } from "../api/types";
import { WorkForm } from "../jobs/WorkForm";
import { may } from "../session/access";
import { useSession } from "../session/useSession";
import { CliLine } from "../ui/CliLine";
import { Lines, QueryView } from "../ui/states";
import { Time } from "../ui/Time";
import { toastDone, toastError } from "../ui/toast";
import { useReturnFocus } from "../ui/useReturnFocus";
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

/** Shows what runs there first, and asks what becomes of it. */
function ArchiveDialog({ node, onClose }: { node: TreeNode; onClose: () => void }) {
  useReturnFocus();
  const work = useQuery(workToArchiveQuery(node.id));
  return (
    <Modal
      opened
      onClose={onClose}
      size="lg"
      title={`Archive ${node.path}?`}
      closeButtonProps={{ "aria-label": "Close" }}
    >
      <QueryView query={work} loading={<Lines count={4} label="Loading its jobs" />}>
        {(found) => <ArchiveForm node={node} work={found} onClose={onClose} />}
      </QueryView>
    </Modal>
  );
}

function ArchiveForm({ node, work, onClose }: { node: TreeNode; work: OpenWork; onClose: () => void }) {
  const changed = useTreeChanged();
  const archive = useMutation({
    mutationFn: (body: Archiving) =>
      unwrap(client.POST("/api/v1/tree/{tree_node_id}/archive", { params: { path: { tree_node_id: node.id } }, body })),
    onSuccess: () => {
      toastDone(`${node.path} is archived`);
      changed();
      onClose();
    },
    onError: toastError,
  });
  return (
    <WorkForm
      work={work}
      until="the restore"
      command={`tidegate tree archive ${node.path}`}
      confirmLabel="Archive"
      isBusy={archive.isPending}
      onConfirm={archive.mutate}
      onClose={onClose}
    >
      Nobody submits jobs to it, and nothing that waits there starts.
      {node.kind !== "team" && " Everything below it is archived with it."}
    </WorkForm>
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
