import { Button, Modal, TextInput } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";

import type { TreeNode } from "../api/types";
import { useTreeChanged } from "../quotas/useTreeChanged";
import { toastDone } from "../ui/toast";
import { renameNode } from "./structureQueries";

/** Gives a node another name. Its path stays. */
export function RenameDialog({ node, onClose }: { node: TreeNode; onClose: () => void }) {
  const changed = useTreeChanged();
  const [name, setName] = useState(node.name);
  const rename = useMutation({
    mutationFn: () => renameNode(node, name),
    onSuccess: (renamed) => {
      toastDone(`${node.name} is ${renamed.name} now`);
      changed();
      onClose();
    },
  });
  return (
    <Modal opened onClose={onClose} title={`Rename ${node.path}`} closeButtonProps={{ "aria-label": "Close" }}>
      <form
        className="stack"
        onSubmit={(event) => {
          event.preventDefault();
          rename.mutate();
        }}
      >
        <TextInput
          label="Name"
          value={name}
          onChange={(event) => setName(event.currentTarget.value)}
          data-autofocus
          required
        />
        {rename.error && (
          <p className="bad-text breaks" role="alert">
            {rename.error.message}
          </p>
        )}
        <div className="inline end">
          <Button type="submit" disabled={name.trim() === ""} loading={rename.isPending}>
            Rename
          </Button>
        </div>
      </form>
    </Modal>
  );
}
