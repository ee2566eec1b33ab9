import { Button, Modal, Select, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { ApiError, client, unwrap } from "../api/client";
import { treeQuery } from "../api/queries";
import type { TreeNode } from "../api/types";
import { newIdempotencyKey } from "../submit/draft";
import { toastDone } from "../ui/toast";
import { formatRatio } from "../ui/units";
import { useReturnFocus } from "../ui/useReturnFocus";
import { faultOf, readAmount } from "./amounts";
import { Refusal } from "./DecisionDialog";
import { adjustmentPolicyQuery } from "./queries";

const REASON_MAX = 500;
const NANO = 1_000_000_000n;

/** Asks for a team, an amount and a reason, and makes an adjustment or asks for a second person. */
export function AdjustmentDialog({ teams, onClose }: { teams: readonly TreeNode[]; onClose: () => void }) {
  useReturnFocus();
  const queryClient = useQueryClient();
  const [key] = useState(newIdempotencyKey);
  const form = useForm({
    initialValues: { team: "", kind: "charge", amount: "", month: "", reason: "" },
    validate: {
      team: (path) => (path === "" ? "Choose a team." : null),
      amount: faultOf,
      month: (text) => (/^(20\d\d-(0[1-9]|1[0-2]))?$/.test(text.trim()) ? null : "Give a month such as 2026-11."),
      reason: (text) => (text.trim() === "" ? "Say why: the team reads it." : null),
    },
  });
  const tree = useQuery(treeQuery);
  const slug = teams.find(({ path }) => path === form.values.team)?.organization;
  const organization = tree.data?.find(({ path }) => path === slug);
  const policy = useQuery({ ...adjustmentPolicyQuery(organization?.id ?? ""), enabled: organization !== undefined });
  const send = useMutation({
    mutationFn: ({ team, kind, amount, month, reason }: typeof form.values) => {
      const nano = Number(readAmount(amount));
      return unwrap(
        client.POST("/api/v1/adjustments", {
          params: { header: { "Idempotency-Key": key } },
          body: {
            team,
            amount_nano: kind === "credit" ? -nano : nano,
            month: month.trim() || null,
            reason: reason.trim(),
          },
        }),
      );
    },
    onSuccess: ({ status }) => {
      toastDone(status === "pending" ? "The adjustment waits for a second person." : "The adjustment is done.");
      void queryClient.invalidateQueries({ queryKey: ["reports"] });
      onClose();
    },
  });
  const refusals = send.error instanceof ApiError ? send.error.fieldErrors : {};
  return (
    <Modal opened onClose={onClose} title="New adjustment" closeButtonProps={{ "aria-label": "Close" }}>
      <form className="stack" onSubmit={form.onSubmit((values) => send.mutate(values))} noValidate>
        <p>
          {policy.data
            ? `Above ${formatRatio(policy.data.your_threshold_nano, NANO, 2, true)} a second person with finance rights approves it within 7 days.`
            : "Above the threshold of the organization a second person approves it within 7 days."}{" "}
          Your other adjustments of the team and month count, too.
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
          label="Kind"
          allowDeselect={false}
          data={[
            { value: "charge", label: "Charge the team" },
            { value: "credit", label: "Credit the team" },
          ]}
          {...form.getInputProps("kind")}
        />
        <TextInput
          label="Amount"
          description="In the currency of the organization."
          required
          inputMode="decimal"
          {...form.getInputProps("amount")}
          error={form.errors.amount ?? refusals.amount_nano}
        />
        <TextInput
          label="Month"
          description="Empty: the present one. At most 12 months back, and not closed."
          placeholder="2026-11"
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
            Adjust
          </Button>
        </div>
      </form>
    </Modal>
  );
}
