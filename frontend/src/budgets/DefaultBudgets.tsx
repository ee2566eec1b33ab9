import { Button, Modal, Select, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { client, unwrap } from "../api/client";
import type { BudgetDefault, TreeNode } from "../api/types";
import { Card } from "../ui/Card";
import { CliLine } from "../ui/CliLine";
import { Confirm } from "../ui/Confirm";
import { DataTable } from "../ui/DataTable";
import { Empty, Lines, QueryView } from "../ui/states";
import { toastDone, toastError } from "../ui/toast";
import { useReturnFocus } from "../ui/useReturnFocus";
import { formatWithUnit, MEASURES, plainAmount, POLICY_WORDS, readAmount, windowText } from "./amounts";
import { budgetDefaultsQuery } from "./queries";
import { checkDays, checkLimit, TermsFields } from "./TermsFields";

type Asked = { kind: "form"; row: BudgetDefault | null } | { kind: "remove"; row: BudgetDefault } | null;

/** The budget that each team made below a node gets. `nodes` are those whose default the reader sets. */
export function DefaultBudgets({ scope, nodes }: { scope: string | undefined; nodes: readonly TreeNode[] }) {
  const defaults = useQuery(budgetDefaultsQuery(scope));
  const [asked, setAsked] = useState<Asked>(null);
  const close = () => setAsked(null);
  return (
    <Card label="Default budgets of new teams">
      <div className="inline spread">
        <h2>Default budgets of new teams</h2>
        {nodes.length > 0 && (
          <Button size="xs" variant="default" onClick={() => setAsked({ kind: "form", row: null })}>
            New default…
          </Button>
        )}
      </div>
      <QueryView query={defaults} loading={<Lines count={2} label="Loading default budgets" />}>
        {(found) =>
          found.length === 0 ? (
            <Empty>There is no default budget that you may see. New teams get their own budgets from such defaults.</Empty>
          ) : (
            <DefaultTable defaults={found} onAsk={setAsked} />
          )
        }
      </QueryView>
      <p className="small faint">
        Each team made below gets an own budget with these terms. The nearest default counts. Existing teams stay unchanged.
      </p>
      <CliLine command="tidegate budgets default list" />
      {asked?.kind === "form" && <DefaultDialog row={asked.row} nodes={nodes} onClose={close} />}
      {asked?.kind === "remove" && <RemoveDialog row={asked.row} onClose={close} />}
    </Card>
  );
}

function DefaultTable({ defaults, onAsk }: { defaults: readonly BudgetDefault[]; onAsk: (asked: Asked) => void }) {
  return (
    <DataTable
      label="Default budgets of new teams"
      className="budgets"
      rows={defaults}
      rowKey={(row) => row.id}
      columns={[
        {
          header: "Teams below",
          isHeading: true,
          headClass: "budget-name",
          title: (row) => row.node,
          cell: (row) => (
            <>
              <b>{row.node}</b>
              <span className="small dim budget-owner">{row.name} of …</span>
            </>
          ),
        },
        {
          header: "Limit",
          isRight: true,
          cell: (row) => (
            <>
              {formatWithUnit(row.limit, row)}
              <span className="small dim budget-owner">{windowText(row)}</span>
            </>
          ),
        },
        { header: "At 100 %", only: "wide", cell: (row) => POLICY_WORDS[row.policy] },
        defaults.some((row) => row.can_edit) && {
          header: <span className="visually-hidden">Actions</span>,
          isRight: true,
          cell: (row) =>
            row.can_edit && (
              <span className="budget-actions">
                <Button
                  size="compact-sm"
                  variant="default"
                  aria-label={`Change the default of ${row.node}`}
                  onClick={() => onAsk({ kind: "form", row })}
                >
                  Change…
                </Button>
                <Button
                  size="compact-sm"
                  variant="default"
                  aria-label={`Remove the default of ${row.node}`}
                  onClick={() => onAsk({ kind: "remove", row })}
                >
                  Remove…
                </Button>
              </span>
            ),
        },
      ]}
    />
  );
}

function DefaultDialog({
  row,
  nodes,
  onClose,
}: {
  row: BudgetDefault | null;
  nodes: readonly TreeNode[];
  onClose: () => void;
}) {
  useReturnFocus();
  const queryClient = useQueryClient();
  const form = useForm({
    initialValues: {
      name: row?.name ?? "default",
      node: row?.node ?? nodes[0]?.path ?? "",
      measure: row?.measure ?? ("gpu_hours"),
      limit: row === null ? "" : plainAmount(row),
      window: row?.window ?? ("month"),
      days: String(row?.rolling_days ?? 30),
      policy: row?.policy ?? ("notify"),
    },
    validate: {
      name: (name) => (name.trim() === "" ? "Give it a name." : null),
      limit: checkLimit,
      days: checkDays,
    },
  });
  const { values } = form;
  const save = useMutation({
    mutationFn: () => {
      const terms = {
        name: values.name.trim(),
        limit: readAmount(values.limit, values.measure) ?? 0,
        window: values.window,
        ...(values.window === "rolling" ? { rolling_days: Number(values.days) } : {}),
        policy: values.policy,
      };
      if (row !== null) {
        return unwrap(
          client.PATCH("/api/v1/budget-defaults/{default_id}", {
            params: { path: { default_id: row.id }, header: { "If-Match": `"v${row.version}"` } },
            body: terms,
          }),
        );
      }
      return unwrap(
        client.POST("/api/v1/budget-defaults", { body: { ...terms, node: values.node, measure: values.measure } }),
      );
    },
    onSuccess: (saved) => {
      void queryClient.invalidateQueries({ queryKey: ["reports"] });
      toastDone(`The default budget of ${saved.node} is set`);
      onClose();
    },
  });
  const per = values.window === "rolling" ? `${values.days}d` : values.window;
  const counted = row === null ? ` --in ${values.measure}` : "";
  return (
    <Modal
      opened
      onClose={onClose}
      size="lg"
      title={row === null ? "New default budget" : `Default budget of ${row.node}`}
      closeButtonProps={{ "aria-label": "Close" }}
    >
      <form className="stack" onSubmit={form.onSubmit(() => save.mutate())}>
        {row === null && (
          <>
            <Select
              label="Node"
              description="Teams made below it get the budget."
              searchable
              allowDeselect={false}
              data={nodes.map((node) => node.path)}
              {...form.getInputProps("node")}
            />
            <Select label="Counts" data={MEASURES} allowDeselect={false} {...form.getInputProps("measure")} />
          </>
        )}
        <TextInput
          label="Name"
          description={`A team's budget is called ${values.name.trim() || "NAME"} of SLUG.`}
          maxLength={33}
          {...form.getInputProps("name")}
        />
        <TermsFields form={form} ofUser={false} />
        {save.error && (
          <p className="bad-text" role="alert">
            {save.error.message}
          </p>
        )}
        <CliLine
          command={`tidegate budgets default set ${values.node}${counted} --limit ${values.limit || "AMOUNT"} --per ${per} --at-limit ${values.policy} --name "${values.name || "NAME"}"`}
        />
        <div className="inline end">
          <Button variant="default" onClick={onClose}>
            Back
          </Button>
          <Button type="submit" loading={save.isPending}>
            {row === null ? "Set default" : "Save"}
          </Button>
        </div>
      </form>
    </Modal>
  );
}

function RemoveDialog({ row, onClose }: { row: BudgetDefault; onClose: () => void }) {
  const queryClient = useQueryClient();
  const remove = useMutation({
    mutationFn: () =>
      unwrap(
        client.DELETE("/api/v1/budget-defaults/{default_id}", {
          params: { path: { default_id: row.id }, header: { "If-Match": `"v${row.version}"` } },
        }),
      ),
    onSuccess: () => toastDone(`The default budget of ${row.node} is removed`),
    onError: toastError,
    onSettled: () => {
      onClose();
      return queryClient.invalidateQueries({ queryKey: ["reports"] });
    },
  });
  return (
    <Confirm
      title={`Remove the default budget of ${row.node}?`}
      isOpen
      isBusy={remove.isPending}
      confirmLabel="Remove"
      isDangerous
      onConfirm={() => remove.mutate()}
      onClose={onClose}
    >
      <p>The budgets of existing teams stay.</p>
    </Confirm>
  );
}
