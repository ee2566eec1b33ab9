import { Button, Modal, Select, Textarea, TextInput } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { client, unwrap } from "../api/client";
import { poolsQuery, priorityClassesQuery, treeQuery } from "../api/queries";
import type { NewChangeRequest, AskedKind } from "../api/types";
import { MEASURE_WORDS, readAmount } from "../budgets/amounts";
import { allBudgetsQuery } from "../budgets/queries";
import { may } from "../session/access";
import { useSession } from "../session/useSession";
import { newIdempotencyKey } from "../submit/draft";
import { ROLES, roleWords } from "../tree/use";
import { utcOfLocal } from "../ui/localTime";
import { toastDone } from "../ui/toast";
import { parseGpus, zoneName } from "../ui/units";
import { useReturnFocus } from "../ui/useReturnFocus";
import { KINDS } from "./search";
import { KIND_WORDS } from "./words";

const REASON_MAX = 500;

/** Asks for more of something, or offers to lend. Nothing changes until another person approves it. */
export function AskDialog({
  kind: firstKind,
  node: firstNode,
  pool: firstPool,
  gpus,
  lender: firstLender,
  target: firstTarget,
  onClose,
}: {
  kind: AskedKind;
  node?: string | undefined;
  pool?: string | undefined;
  gpus?: string | undefined;
  lender?: string | undefined;
  target?: string | undefined;
  /** With the id of the new request, if there is one. */
  onClose: (made?: string) => void;
}) {
  useReturnFocus();
  const session = useSession();
  const queryClient = useQueryClient();
  const [key] = useState(newIdempotencyKey);
  const [kind, setKind] = useState(firstKind);
  const [node, setNode] = useState(firstNode ?? null);
  const [lender, setLender] = useState(firstLender ?? null);
  const [pool, setPool] = useState(firstPool ?? null);
  const [target, setTarget] = useState(firstTarget ?? null);
  const [role, setRole] = useState<NonNullable<NewChangeRequest["role"]> | null>(null);
  const [amountText, setAmountText] = useState(gpus ?? "");
  const [beginText, setBeginText] = useState("");
  const [untilText, setUntilText] = useState("");
  const [reason, setReason] = useState("");
  const tree = (useQuery(treeQuery).data ?? []).filter((each) => each.archived_at === null);
  const pools = useQuery(poolsQuery).data ?? [];
  const budgets = useQuery({ ...allBudgetsQuery, enabled: kind === "budget" }).data ?? [];
  const organization = (node ?? tree[0]?.path ?? "").split("/")[0] ?? "";
  const classes = useQuery({
    ...priorityClassesQuery(organization),
    enabled: kind === "class_cap" && organization !== "",
  }).data;
  const isOfQuotas = kind === "guarantee" || kind === "borrow_limit" || kind === "loan";
  const mine = tree.filter(({ path }) =>
    kind === "role" || kind === "loan"
      ? true
      : may(session, "submit_jobs", path) || may(session, "manage_quota", path),
  );
  const lenders = tree.filter(({ path }) => may(session, "manage_quota", path));
  const measure = budgets.find(({ id }) => id === target)?.measure;
  const amount = kind === "budget" ? (measure ? readAmount(amountText, measure) : null) : parseGpus(amountText);
  const begin = utcOfLocal(beginText);
  const until = utcOfLocal(untilText);
  const isComplete =
    reason.trim() !== "" &&
    (kind === "budget" ? target !== null : node !== null) &&
    (!isOfQuotas || pool !== null) &&
    (kind === "role" ? role !== null : amount !== null && amount > 0) &&
    (kind !== "loan" || (lender !== null && until !== null)) &&
    (kind !== "class_cap" || target !== null);
  const send = useMutation({
    mutationFn: () =>
      unwrap(
        client.POST("/api/v1/requests", {
          params: { header: { "Idempotency-Key": key } },
          body: {
            kind,
            reason: reason.trim(),
            ...(kind !== "budget" && { node }),
            ...(isOfQuotas && { pool, begin }),
            ...((isOfQuotas || kind === "role") && { until }),
            ...(kind === "loan" && { lender }),
            ...((kind === "budget" || kind === "class_cap") && { target }),
            ...(kind === "role" ? { role } : { amount }),
          },
        }),
      ),
    onSuccess: ({ id }) => {
      toastDone("The request is sent. The people who may decide it are told.");
      void queryClient.invalidateQueries({ queryKey: ["requests"] });
      onClose(id);
    },
  });
  return (
    <Modal opened onClose={() => onClose()} title="New request" closeButtonProps={{ "aria-label": "Close" }}>
      <form
        className="stack"
        noValidate
        onSubmit={(event) => {
          event.preventDefault();
          if (isComplete) send.mutate();
        }}
      >
        <Select
          label="Kind"
          allowDeselect={false}
          data={KINDS.map((value) => ({ value, label: KIND_WORDS[value] }))}
          value={kind}
          onChange={(value) => {
            setKind(KINDS.find((each) => each === value) ?? kind);
            setTarget(null);
          }}
        />
        {kind === "loan" && (
          <Select
            label="Lender"
            description="A node whose quota you manage."
            required
            searchable
            data={lenders.map(({ path }) => path)}
            value={lender}
            onChange={setLender}
          />
        )}
        {kind === "budget" ? (
          <Select
            label="Budget"
            required
            searchable
            nothingFoundMessage="No such budget"
            data={budgets.map(({ id, name, node: of }) => ({ value: id, label: `${name} (${of})` }))}
            value={target}
            onChange={setTarget}
          />
        ) : (
          <Select
            label={kind === "loan" ? "For its sibling" : "Node"}
            required
            searchable
            nothingFoundMessage="No such node"
            data={mine.map(({ path }) => path)}
            value={node}
            onChange={setNode}
          />
        )}
        {isOfQuotas && (
          <Select
            label="Pool"
            required
            data={pools.map(({ name }) => name)}
            value={pool}
            onChange={setPool}
          />
        )}
        {kind === "class_cap" && (
          <Select
            label="Class"
            required
            data={(classes ?? []).filter((each) => each.team_cap_mgpu !== null).map(({ id, name }) => ({ value: id, label: name }))}
            value={target}
            onChange={setTarget}
          />
        )}
        {kind === "role" ? (
          <Select
            label="Role"
            required
            data={ROLES.map((value) => ({ value, label: roleWords(value) }))}
            value={role}
            onChange={(value) => setRole(ROLES.find((each) => each === value) ?? null)}
          />
        ) : (
          <TextInput
            label={kind === "budget" ? "How much more" : "GPUs"}
            description={
              kind === "budget"
                ? measure && `In ${measure === "money" ? "the currency of the organization" : MEASURE_WORDS[measure]}.`
                : kind === "loan"
                  ? undefined
                  : "Above the present value."
            }
            required
            inputMode="decimal"
            value={amountText}
            onChange={(event) => setAmountText(event.currentTarget.value)}
          />
        )}
        {isOfQuotas && (
          <TextInput
            type="datetime-local"
            label="From"
            description={`Your time, ${zoneName(new Date())}. Empty: from the approval on.`}
            value={beginText}
            onChange={(event) => setBeginText(event.currentTarget.value)}
          />
        )}
        {(isOfQuotas || kind === "role") && (
          <TextInput
            type="datetime-local"
            label="Until"
            description={`Your time, ${zoneName(new Date())}. ${kind === "loan" ? "The GPUs return then." : "Empty: for good."}`}
            required={kind === "loan"}
            value={untilText}
            onChange={(event) => setUntilText(event.currentTarget.value)}
          />
        )}
        <Textarea
          label="Reason"
          description="Read by the people who decide."
          required
          autosize
          minRows={2}
          maxLength={REASON_MAX}
          value={reason}
          onChange={(event) => setReason(event.currentTarget.value)}
        />
        {send.error && (
          <p className="bad-text" role="alert">
            {send.error.message}
          </p>
        )}
        <div className="inline end">
          <Button variant="default" onClick={() => onClose()}>
            Back
          </Button>
          <Button type="submit" loading={send.isPending} disabled={!isComplete}>
            Send request
          </Button>
        </div>
      </form>
    </Modal>
  );
}
