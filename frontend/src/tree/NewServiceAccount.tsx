import { Button, Modal, TextInput } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { client, unwrap } from "../api/client";
import { CliLine } from "../ui/CliLine";
import { commandLine } from "../ui/command";
import { toastDone } from "../ui/toast";
import { useNode } from "./useNode";

/** Makes a service account with the role service_account on the node. */
export function NewServiceAccount({ onClose }: { onClose: () => void }) {
  const node = useNode();
  const queryClient = useQueryClient();
  const [username, setUsername] = useState("");
  const [name, setName] = useState("");
  const make = useMutation({
    mutationFn: () =>
      unwrap(
        client.POST("/api/v1/tree/{tree_node_id}/service-accounts", {
          params: { path: { tree_node_id: node.id } },
          body: { username, name: name.trim() === "" ? null : name },
        }),
      ),
    onSuccess: (made) => {
      toastDone(`${made.user} is created. Give it a token next.`);
      void queryClient.invalidateQueries({ queryKey: ["users"] });
      onClose();
    },
  });
  return (
    <Modal
      opened
      onClose={onClose}
      title={`New service account in ${node.path}`}
      closeButtonProps={{ "aria-label": "Close" }}
    >
      <form
        className="stack"
        onSubmit={(event) => {
          event.preventDefault();
          make.mutate();
        }}
      >
        <p className="dim">A program submits jobs of {node.slug} with it. It has no password, only access tokens.</p>
        <TextInput
          label="Username"
          description="Letters a-z, digits, '.', '_' and -."
          value={username}
          onChange={(event) => setUsername(event.currentTarget.value)}
          data-autofocus
          required
        />
        <TextInput
          label="Name"
          placeholder={username}
          value={name}
          onChange={(event) => setName(event.currentTarget.value)}
        />
        {make.error && (
          <p className="bad-text breaks" role="alert">
            {make.error.message}
          </p>
        )}
        <CliLine command={commandLine(`tidegate service-accounts create ${node.path} ${username || "USERNAME"}`, { name })} />
        <div className="inline end">
          <Button type="submit" disabled={username === ""} loading={make.isPending}>
            Create
          </Button>
        </div>
      </form>
    </Modal>
  );
}
