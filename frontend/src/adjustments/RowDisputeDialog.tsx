import { Button, Modal, Select, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { ApiError, client, unwrap } from "../api/client";
import { poolsQuery } from "../api/queries";
import type { TreeNode } from "../api/types";
import { newIdempotencyKey } from "../submit/draft";
import { toastDone } from "../ui/toast";
import { useReturnFocus } from "../ui/useReturnFocus";
import { Refusal } from "./DecisionDialog";

const REASON_MAX = 500;

/** Disputes all that a team was charged for a pool in a month that is over. */
export function RowDisputeDialog({ teams, onClose }: { teams: readonly TreeNode[]; onClose: () => void }) {
  useReturnFocus();
  const queryClient = useQueryClient();
  const pools = useQuery(poolsQuery);
  const [key] = useState(newIdempotencyKey);
  const form = useForm({
    initialValues: { team: "", pool: "", month: "", reason: "" },
    validate: {
      team: (path) => (path === "" ? "Choose a team." : null),
      pool: (name) => (name === "" ? "Choose a pool." : null),
      month: (text) => (/^20\d\d-(0[1-9]|1[0-2])$/.test(text.trim()) ? null : "Give a month such as 2026-10."),
      reason: (text) => (text.trim() === "" ? "Say why the charge is wrong." : null),
    },
  });
  const send = useMutation({
    mutationFn: ({ team, pool, month, reason }: typeof form.values) =>
      unwrap(
        client.POST("/api/v1/disputes", {
          params: { header: { "Idempotency-Key": key } },
          body: { team, pool, month: month.trim(), reason: reason.trim() },
        }),
      ),
    onSuccess: () => {
      toastDone("The dispute is open. Finance decides it.");
      void queryClient.invalidateQueries({ queryKey: ["reports"] });
      onClose();
    },
  });
  const refusals = send.error instanceof ApiError ? send.error.fieldErrors : {};
  return (
    <Modal opened onClose={onClose} title="Dispute a charge" closeButtonProps={{ "aria-label": "Close" }}>
      <form className="stack" onSubmit={form.onSubmit((values) => send.mutate(values))} noValidate>
        <p>
          All that a team was charged for a pool in a month: a row of the page Chargeback. The page of a job disputes the
          charge of one attempt.
        </p>
        <Select
          label="Team"
          required
          searchable
          data-autofocus
          nothingFoundMessage="No such team"
          data={teams.map(({ path }) => path)}
          {...form.getInputProps("team")}
          error={form.errors.team ?? refusals.team}
        />
        <Select
          label="Pool"
          required
          data={pools.data?.map(({ name }) => name) ?? []}
          {...form.getInputProps("pool")}
          error={form.errors.pool ?? refusals.pool}
        />
        <TextInput
          label="Month"
          description="A month that is over."
          required
          placeholder="2026-10"
          {...form.getInputProps("month")}
          error={form.errors.month ?? refusals.month}
        />
        <TextInput
          label="Reason"
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
            Dispute
          </Button>
        </div>
      </form>
    </Modal>
  );
}
