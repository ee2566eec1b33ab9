import { Button, Modal, TextInput } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { client, unwrap } from "../api/client";
import type { AdjustmentPolicy, TreeNode } from "../api/types";
import { QueryView } from "../ui/states";
import { Time } from "../ui/Time";
import { toastDone } from "../ui/toast";
import { formatRatio } from "../ui/units";
import { useReturnFocus } from "../ui/useReturnFocus";
import { readAmount } from "./amounts";
import { Refusal } from "./DecisionDialog";
import { adjustmentPolicyQuery } from "./queries";

const NANO = 1_000_000_000n;

/** Shows the amount above which an organization's adjustments need a second person, and changes it. */
export function ThresholdDialog({ organization, onClose }: { organization: TreeNode; onClose: () => void }) {
  useReturnFocus();
  const policy = useQuery(adjustmentPolicyQuery(organization.id));
  return (
    <Modal
      opened
      onClose={onClose}
      title={`Threshold of ${organization.name}`}
      closeButtonProps={{ "aria-label": "Close" }}
    >
      <QueryView query={policy}>
        {(found) => <ThresholdForm organization={organization} policy={found} onClose={onClose} />}
      </QueryView>
    </Modal>
  );
}

function ThresholdForm({
  organization,
  policy,
  onClose,
}: {
  organization: TreeNode;
  policy: AdjustmentPolicy;
  onClose: () => void;
}) {
  const queryClient = useQueryClient();
  const [text, setText] = useState("");
  const read = readAmount(text);
  const change = useMutation({
    mutationFn: (thresholdNano: number) =>
      unwrap(
        client.PATCH("/api/v1/organizations/{organization_id}/adjustment-policy", {
          params: { path: { organization_id: organization.id }, header: { "If-Match": `"v${policy.version}"` } },
          body: { threshold_nano: thresholdNano },
        }),
      ),
    onSuccess: ({ threshold_nano }) => {
      toastDone(`The threshold is ${formatRatio(threshold_nano, NANO, 2, true)}.`);
      onClose();
    },
    onSettled: () => queryClient.invalidateQueries({ queryKey: ["reports"] }),
  });
  const isOwnRaise = policy.your_threshold_nano < policy.threshold_nano;
  return (
    <form
      className="stack"
      onSubmit={(event) => {
        event.preventDefault();
        if (typeof read === "number") change.mutate(read);
      }}
      noValidate
    >
      <p>
        Now {formatRatio(policy.threshold_nano, NANO, 2, true)}
        {policy.changed_by !== null && policy.changed_at !== null && (
          <>
            , changed by {policy.changed_by} <Time at={policy.changed_at} />
          </>
        )}
        . Above it, all adjustments that a person makes alone for a team and month need a second person.
      </p>
      <p>
        {isOwnRaise
          ? `You raised it, so for you ${formatRatio(policy.your_threshold_nano, NANO, 2, true)} applies until another person changes it.`
          : "If you raise it, the raise counts for other persons only."}
      </p>
      <TextInput
        label="New threshold"
        description="In the currency of the organization. 0: every adjustment needs two persons."
        required
        inputMode="decimal"
        data-autofocus
        value={text}
        onChange={(event) => setText(event.currentTarget.value)}
        error={text.trim() !== "" && typeof read === "string" ? read : undefined}
      />
      <Refusal error={change.error} />
      <div className="inline end">
        <Button variant="default" onClick={onClose}>
          Back
        </Button>
        <Button type="submit" loading={change.isPending} disabled={typeof read === "string"}>
          Change
        </Button>
      </div>
    </form>
  );
}
