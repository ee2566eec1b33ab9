import { Button, Checkbox, Modal, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useMutation, useQueryClient } from "@tanstack/react-query";

import { ApiError, client, unwrap } from "../api/client";
import { clusterNodesQuery } from "../api/queries";
import type { ClusterNode } from "../api/types";
import { toastDone } from "../ui/toast";
import { useReturnFocus } from "../ui/useReturnFocus";
import { EVICT_GRACE_S, whatEvictionDoes } from "./nodes";

export interface NodeQuestion {
  node: ClusterNode;
  action: "drain" | "resume";
  /** Jobs on it that I may see; null while they are not known. */
  jobs: number | null;
  /** Why its cluster cannot evict what runs there, or "". */
  evictionRefusal: string;
}

/** Asks why, and sends the wish. The cluster is asked a moment later; the node's row tells the rest. */
export function NodeDialog({ question, onClose }: { question: NodeQuestion; onClose: () => void }) {
  useReturnFocus();
  const { node, action, jobs, evictionRefusal } = question;
  const queryClient = useQueryClient();
  const form = useForm({ initialValues: { reason: "", evicts: false } });
  const { reason, evicts } = form.values;
  const params = { path: { node_id: node.id } };
  const ask = useMutation({
    mutationFn: () =>
      action === "drain"
        ? unwrap(
            client.POST("/api/v1/nodes/{node_id}/drain", {
              params,
              body: { reason: reason.trim(), ...(evicts && { evict_grace_s: EVICT_GRACE_S }) },
            }),
          )
        : unwrap(client.POST("/api/v1/nodes/{node_id}/resume", { params })),
    onSuccess: () => {
      toastDone(`${action === "drain" ? "Drain" : "Resume"} of ${node.name} requested`);
      void queryClient.invalidateQueries({ queryKey: clusterNodesQuery(node.cluster).queryKey });
      onClose();
    },
  });
  const refusals = ask.error instanceof ApiError ? ask.error.fieldErrors : {};
  return (
    <Modal
      opened
      onClose={onClose}
      title={action === "drain" ? `Drain ${node.name}?` : `Resume ${node.name}?`}
      closeButtonProps={{ "aria-label": "Close" }}
    >
      <form
        className="stack"
        onSubmit={form.onSubmit(() => ask.mutate())}
      >
        {action === "drain" ? (
          <>
            <p>
              Nothing new starts on it
              {jobs !== null &&
                jobs > 0 &&
                !evicts &&
                `; ${jobs === 1 ? "the job" : `the ${jobs} jobs`} on it may go on to the end`}
              .
            </p>
            {evictionRefusal === "" && (
              <Checkbox
                label="Evict what runs on it"
                {...form.getInputProps("evicts", { type: "checkbox" })}
              />
            )}
            {evicts && whatEvictionDoes(jobs).map((sentence) => <p key={sentence}>{sentence}</p>)}
            <TextInput
              label="Reason"
              description="One line for people who find the node drained. The cluster shows it, too."
              required
              maxLength={200}
              data-autofocus
              {...form.getInputProps("reason")}
              error={refusals.reason}
            />
          </>
        ) : (
          <p>
            New work may start on it again.
            {node.reason && ` It was taken out for: ${node.reason}`}
          </p>
        )}
        {ask.error && !refusals.reason && (
          <p className="bad-text" role="alert">
            {ask.error.message}
          </p>
        )}
        <div className="inline end">
          <Button variant="default" onClick={onClose}>
            Back
          </Button>
          <Button type="submit" loading={ask.isPending} disabled={action === "drain" && reason.trim() === ""}>
            {action === "resume" ? "Resume" : evicts ? "Drain and evict" : "Drain"}
          </Button>
        </div>
      </form>
    </Modal>
  );
}
