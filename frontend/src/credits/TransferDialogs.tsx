import { Button, Modal, Select, Textarea, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { ApiError, client, unwrap } from "../api/client";
import type { CreditTransfer, Pool, TeamCredits, TreeNode } from "../api/types";
import { newIdempotencyKey } from "../submit/draft";
import { toastDone } from "../ui/toast";
import { deviceTime, type Device } from "../ui/units";
import { useReturnFocus } from "../ui/useReturnFocus";
import { formatHours, parseHours, slugOf } from "./amounts";

const REASON_MAX = 500;

/** Asks to whom, how much and why, and transfers at once or asks for approval. */
export function TransferDialog({
  team,
  mine,
  teams,
  pool,
  onClose,
}: {
  team: TreeNode;
  mine: TeamCredits;
  teams: readonly TreeNode[];
  pool: Pool;
  onClose: () => void;
}) {
  useReturnFocus();
  const queryClient = useQueryClient();
  const [key] = useState(newIdempotencyKey);
  const hours = deviceTime(pool.device, "h");
  const form = useForm({
    initialValues: { recipient: "", amount: "", reason: "" },
    validate: {
      recipient: (path) => (path === "" ? "Choose a team." : null),
      amount: (text) => amountFault(text, mine.transferable_ugpu_s, hours),
      reason: (text) => (text.trim() === "" ? "Say why: both statements show it." : null),
    },
  });
  const send = useMutation({
    mutationFn: ({ recipient, amount, reason }: typeof form.values) =>
      unwrap(
        client.POST("/api/v1/credits/transfers", {
          params: { header: { "Idempotency-Key": key } },
          body: {
            sender: team.path,
            recipient,
            pool: pool.name,
            amount_ugpu_s: parseHours(amount) ?? 0,
            reason: reason.trim(),
          },
        }),
      ),
    onSuccess: ({ status, recipient }) => {
      toastDone(
        status === "pending"
          ? `The transfer to ${slugOf(recipient)} waits for approval.`
          : `${slugOf(recipient)} has the credits.`,
      );
      void queryClient.invalidateQueries({ queryKey: ["quotas"] });
      onClose();
    },
  });
  const refusals = send.error instanceof ApiError ? send.error.fieldErrors : {};
  const others = teams.filter((each) => each.organization === team.organization && each.path !== team.path);
  return (
    <Modal
      opened
      onClose={onClose}
      title={`Transfer credits of ${slugOf(team.path)}`}
      closeButtonProps={{ "aria-label": "Close" }}
    >
      <form className="stack" onSubmit={form.onSubmit((values) => send.mutate(values))} noValidate>
        <p>
          Inside a department the transfer is done at once. To another department it waits for approval and expires after
          7 days. The oldest credits move first and keep their expiry.
        </p>
        <Select
          label="To"
          required
          searchable
          data-autofocus
          nothingFoundMessage="No such team"
          data={others.map(({ path }) => path)}
          {...form.getInputProps("recipient")}
          error={form.errors.recipient ?? refusals.recipient}
        />
        <TextInput
          label={`Amount, ${hours}`}
          description={`${slugOf(team.path)} can transfer at most ${formatHours(mine.transferable_ugpu_s)}.`}
          required
          inputMode="decimal"
          {...form.getInputProps("amount")}
          error={form.errors.amount ?? refusals.amount_ugpu_s}
        />
        <TextInput
          label="Reason"
          description="Both teams read it."
          required
          maxLength={REASON_MAX}
          {...form.getInputProps("reason")}
          error={form.errors.reason ?? refusals.reason}
        />
        <Refusal error={send.error} />
        <div className="inline end">
          <Button variant="default" onClick={onClose}>
            Back
          </Button>
          <Button type="submit" loading={send.isPending}>
            Transfer
          </Button>
        </div>
      </form>
    </Modal>
  );
}

function amountFault(text: string, most: number, hours: string): string | null {
  const amount = parseHours(text);
  if (amount === null || amount === 0) return "Give a number such as 500 or 12.5.";
  return amount > most ? `At most ${formatHours(most)} ${hours}.` : null;
}

export interface Decision {
  transfer: CreditTransfer;
  act: "approve" | "reject" | "withdraw";
}

const DECISION_WORDS = { approve: "Approve", reject: "Reject", withdraw: "Withdraw" } as const;

/** Shows a pending transfer, takes a note, and decides. */
export function DecisionDialog({
  decision: { transfer, act },
  device,
  onClose,
}: {
  decision: Decision;
  device: Device;
  onClose: () => void;
}) {
  useReturnFocus();
  const queryClient = useQueryClient();
  const [note, setNote] = useState("");
  const words = DECISION_WORDS[act];
  const params = { path: { transfer_id: transfer.id } };
  const decide = useMutation({
    mutationFn: () =>
      act === "approve"
        ? unwrap(client.POST("/api/v1/credits/transfers/{transfer_id}/approve", { params, body: { note: note.trim() } }))
        : unwrap(client.POST("/api/v1/credits/transfers/{transfer_id}/reject", { params, body: { note: note.trim() } })),
    onSuccess: ({ status }) => {
      toastDone(`The transfer to ${slugOf(transfer.recipient)} is ${status}.`);
      void queryClient.invalidateQueries({ queryKey: ["quotas"] });
      onClose();
    },
  });
  return (
    <Modal opened onClose={onClose} title={`${words} the transfer?`} closeButtonProps={{ "aria-label": "Close" }}>
      <div className="stack">
        <p>
          {formatHours(transfer.amount_ugpu_s)} {deviceTime(device, "h")} from <b>{transfer.sender}</b> to{" "}
          <b>{transfer.recipient}</b>, asked for by {transfer.asked_by}: “{transfer.reason}”
        </p>
        {act !== "withdraw" && (
          <Textarea
            label="Note"
            description={act === "reject" ? "The person who asked reads why." : undefined}
            required={act === "reject"}
            autosize
            minRows={2}
            maxLength={REASON_MAX}
            data-autofocus
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
            color={act === "approve" ? undefined : "red"}
            loading={decide.isPending}
            disabled={act === "reject" && note.trim() === ""}
            onClick={() => decide.mutate()}
          >
            {words}
          </Button>
        </div>
      </div>
    </Modal>
  );
}

function Refusal({ error }: { error: Error | null }) {
  return (
    error && (
      <p className="bad-text" role="alert">
        {error.message}
      </p>
    )
  );
}
