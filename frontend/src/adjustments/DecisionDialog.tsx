import { Button, Modal, Textarea, TextInput } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { client, unwrap } from "../api/client";
import type { Adjustment, Dispute } from "../api/types";
import { toastDone } from "../ui/toast";
import { formatMoney } from "../ui/units";
import { useReturnFocus } from "../ui/useReturnFocus";
import { faultOf, readAmount } from "./amounts";

const REASON_MAX = 500;

export type Decision =
  | { kind: "adjustment"; adjustment: Adjustment; act: "approve" | "reject" | "withdraw" }
  | { kind: "dispute"; dispute: Dispute; act: "accept" | "decline" | "withdraw" };

const WORDS = { approve: "Approve", reject: "Reject", withdraw: "Withdraw", accept: "Refund", decline: "Decline" } as const;

/** Shows what waits, takes a note and the refund, and decides. */
export function DecisionDialog({ decision, onClose }: { decision: Decision; onClose: () => void }) {
  useReturnFocus();
  const queryClient = useQueryClient();
  const [note, setNote] = useState("");
  const [refund, setRefund] = useState("");
  const { act } = decision;
  const needsNote = act === "reject" || act === "decline";
  const isWhole = refund.trim() === "";
  const fault = isWhole ? null : faultOf(refund);
  const refundNano = isWhole ? null : Number(readAmount(refund));
  const decide = useMutation({
    mutationFn: () => decided(decision, note.trim(), refundNano),
    onSuccess: ({ status }) => {
      toastDone(`The ${decision.kind} is ${status}.`);
      onClose();
    },
    onSettled: () => queryClient.invalidateQueries({ queryKey: ["reports"] }),
  });
  return (
    <Modal
      opened
      onClose={onClose}
      title={act === "accept" ? "Refund the charge?" : `${WORDS[act]} the ${decision.kind}?`}
      closeButtonProps={{ "aria-label": "Close" }}
    >
      <div className="stack">
        <p>{summaryOf(decision)}</p>
        {decision.kind === "dispute" && act === "accept" && (
          <TextInput
            label="Refund"
            description={`Empty: the whole charge, ${formatMoney(decision.dispute.charged_nano, decision.dispute.currency)}.`}
            inputMode="decimal"
            data-autofocus
            value={refund}
            onChange={(event) => setRefund(event.currentTarget.value)}
            error={fault}
          />
        )}
        {act !== "withdraw" && (
          <Textarea
            label="Note"
            description={needsNote ? "The person who asked reads why." : undefined}
            required={needsNote}
            autosize
            minRows={2}
            maxLength={REASON_MAX}
            value={note}
            onChange={(event) => setNote(event.currentTarget.value)}
          />
        )}
        <Refusal error={decide.error} />
        <div className="inline end">
          <Button variant="default" onClick={onClose}>
            Back
          </Button>
          <Button
            color={act === "approve" || act === "accept" ? undefined : "red"}
            loading={decide.isPending}
            disabled={fault !== null || (needsNote && note.trim() === "")}
            onClick={() => decide.mutate()}
          >
            {WORDS[act]}
          </Button>
        </div>
      </div>
    </Modal>
  );
}

function summaryOf(decision: Decision): string {
  if (decision.kind === "adjustment") {
    const { amount_nano, currency, team, month, asked_by, reason } = decision.adjustment;
    return `${formatMoney(amount_nano, currency)} for ${team} in ${month}, asked for by ${asked_by}: “${reason}”`;
  }
  const { charged_nano, currency, subject, team, asked_by, reason } = decision.dispute;
  return `${formatMoney(charged_nano, currency)} for ${subject} of ${team}, disputed by ${asked_by}: “${reason}”`;
}

function decided(decision: Decision, note: string, refundNano: number | null): Promise<{ status: string }> {
  if (decision.kind === "adjustment") {
    const params = { path: { adjustment_id: decision.adjustment.id } };
    return decision.act === "approve"
      ? unwrap(client.POST("/api/v1/adjustments/{adjustment_id}/approve", { params, body: { note } }))
      : unwrap(client.POST("/api/v1/adjustments/{adjustment_id}/reject", { params, body: { note } }));
  }
  const params = { path: { dispute_id: decision.dispute.id } };
  return decision.act === "accept"
    ? unwrap(client.POST("/api/v1/disputes/{dispute_id}/accept", { params, body: { note, refund_nano: refundNano } }))
    : unwrap(client.POST("/api/v1/disputes/{dispute_id}/decline", { params, body: { note } }));
}

export function Refusal({ error }: { error: Error | null }) {
  return (
    error && (
      <p className="bad-text" role="alert">
        {error.message}
      </p>
    )
  );
}
