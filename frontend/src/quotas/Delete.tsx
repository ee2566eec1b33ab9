import { Button, Modal } from "@mantine/core";
import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { client, unwrap } from "../api/client";
import { treeQuery } from "../api/queries";
import type { TreeNode } from "../api/types";
import { may } from "../session/access";
import { useSession } from "../session/useSession";
import { CliLine } from "../ui/CliLine";
import { toastDone } from "../ui/toast";
import { useReturnFocus } from "../ui/useReturnFocus";
import { useTreeChanged } from "./useTreeChanged";

/** Delete the node at `path`, if it was never used. Nothing for a reader who may not. */
export function Delete({ path, onDeleted }: { path: string; onDeleted: () => void }) {
  const session = useSession();
  const tree = useQuery(treeQuery);
  const [isAsked, setAsked] = useState(false);
  const node = tree.data?.find((each) => each.path === path);
  // An organization is deleted by platform administrators only.
  if (node === undefined || !may(session, "manage_structure", node.parent === null ? "" : path)) return null;
  return (
    <section aria-label="Delete">
      <h2>Delete</h2>
      <p className="dim">Only what never had a job, a bill or a member.</p>
      <Button variant="default" c="var(--bad)" onClick={() => setAsked(true)}>
        Delete…
      </Button>
      {isAsked && <DeleteDialog node={node} onClose={() => setAsked(false)} onDeleted={onDeleted} />}
    </section>
  );
}

function DeleteDialog({
  node,
  onClose,
  onDeleted,
}: {
  node: TreeNode;
  onClose: () => void;
  onDeleted: () => void;
}) {
  useReturnFocus();
  const changed = useTreeChanged();
  const remove = useMutation({
    mutationFn: () =>
      unwrap(client.DELETE("/api/v1/tree/{tree_node_id}", { params: { path: { tree_node_id: node.id } } })),
    onSuccess: () => {
      toastDone(`${node.path} is deleted`);
      onDeleted();
      changed();
    },
  });
  const refusal = remove.error;
  return (
    <Modal
      opened
      onClose={onClose}
      title={`Delete ${node.path}?`}
      closeButtonProps={{ "aria-label": "Close" }}
    >
      <div className="stack">
        {refusal ? (
          <p className="bad-text breaks" role="alert">
            {refusal.message}
          </p>
        ) : (
          <p>It goes for good, with its quotas. This is refused where it was used.</p>
        )}
        <CliLine command={`tidegate tree delete ${node.path}`} />
        <div className="inline end">
          <Button variant="default" onClick={onClose} data-autofocus>
            Back
          </Button>
          <Button color="red" disabled={refusal !== null} loading={remove.isPending} onClick={() => remove.mutate()}>
            Delete
          </Button>
        </div>
      </div>
    </Modal>
  );
}
