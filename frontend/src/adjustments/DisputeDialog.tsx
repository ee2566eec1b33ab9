import { Button, Modal, Textarea } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { client, unwrap } from "../api/client";
import { newIdempotencyKey } from "../submit/draft";
import { toastDone } from "../ui/toast";
import { useReturnFocus } from "../ui/useReturnFocus";
import { Refusal } from "./DecisionDialog";

const REASON_MAX = 500;

/** Takes the reason for which the charge of an attempt is wrong, and opens a dispute. */
export function DisputeDialog({
  attempt,
  onClose,
}: {
  attempt: { id: string; number: number };
  onClose: () => void;
}) {
  useReturnFocus();
  const queryClient = useQueryClient();
  const [key] = useState(newIdempotencyKey);
  const [reason, setReason] = useState("");
  const send = useMutation({
    mutationFn: () =>
      unwrap(
        client.POST("/api/v1/disputes", {
          params: { header: { "Idempotency-Key": key } },
          body: { attempt: attempt.id, reason: reason.trim() },
        }),
      ),
    onSuccess: () => {
      toastDone("The dispute is open. Finance decides it on the page Adjustments.");
      void queryClient.invalidateQueries({ queryKey: ["reports"] });
      onClose();
    },
  });
  return (
    <Modal
      opened
      onClose={onClose}
      title={`Dispute the charge of attempt ${attempt.number}?`}
      closeButtonProps={{ "aria-label": "Close" }}
    >
      <div className="stack">
        <p>Finance refunds the charge, in full or in part, or declines with a note. A charge is refunded once.</p>
        <Textarea
          label="Reason"
          description="Why the charge is wrong."
          required
          autosize
          minRows={2}
          maxLength={REASON_MAX}
          data-autofocus
          value={reason}
          onChange={(event) => setReason(event.currentTarget.value)}
        />
        <Refusal error={send.error} />
        <div className="inline end">
          <Button variant="default" onClick={onClose}>
            Back
          </Button>
          <Button loading={send.isPending} disabled={reason.trim() === ""} onClick={() => send.mutate()}>
            Dispute
          </Button>
        </div>
      </div>
    </Modal>
  );
}
