import { Button, Modal, Select, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useMutation, useQueryClient } from "@tanstack/react-query";

import { client, unwrap } from "../api/client";
import type { Budget, Pool, TreeNode } from "../api/types";
import { CliLine } from "../ui/CliLine";
import { toastDone } from "../ui/toast";
import { useReturnFocus } from "../ui/useReturnFocus";
import { MEASURE_WORDS, MEASURES, plainAmount, readAmount } from "./amounts";
import { checkDays, checkLimit, TermsFields } from "./TermsFields";

/** Makes a budget, or changes the given one. */
export function BudgetDialog({
  budget,
  nodes,
  pools,
  onClose,
}: {
  budget: Budget | null;
  nodes: readonly TreeNode[];
  pools: readonly Pool[];
  onClose: () => void;
}) {
  useReturnFocus();
  const queryClient = useQueryClient();
  const form = useForm({
    initialValues: {
      name: budget?.name ?? "",
      node: budget?.node ?? nodes[0]?.path ?? "",
      user: budget?.user ?? "",
      pool: budget?.pool ?? "",
      measure: budget?.measure ?? ("gpu_hours"),
      limit: budget === null ? "" : plainAmount(budget),
      window: budget?.window ?? ("month"),
      days: String(budget?.rolling_days ?? 30),
      policy: budget?.policy ?? ("notify"),
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
      const settings = {
        name: values.name.trim(),
        limit: readAmount(values.limit, values.measure) ?? 0,
        window: values.window,
        ...(values.window === "rolling" ? { rolling_days: Number(values.days) } : {}),
        policy: values.policy,
      };
      if (budget !== null) {
        return unwrap(
          client.PATCH("/api/v1/budgets/{budget_id}", {
            params: { path: { budget_id: budget.id }, header: { "If-Match": `"v${budget.version}"` } },
            body: settings,
          }),
        );
      }
      return unwrap(
        client.POST("/api/v1/budgets", {
          body: {
            ...settings,
            node: values.node,
            user: values.user.trim() || null,
            pool: values.pool || null,
            measure: values.measure,
          },
        }),
      );
    },
    onSuccess: (saved) => {
      void queryClient.invalidateQueries({ queryKey: ["reports"] });
      toastDone(`Budget ${saved.name} is ${budget === null ? "made" : "changed"}`);
      onClose();
    },
  });
  const owner = budget?.user === undefined || budget.user === null ? budget?.node : `${budget.user} in ${budget.node}`;
  return (
    <Modal
      opened
      onClose={onClose}
      size="lg"
      title={budget === null ? "New budget" : `Change ${budget.name}`}
      closeButtonProps={{ "aria-label": "Close" }}
    >
      <form className="stack" onSubmit={form.onSubmit(() => save.mutate())}>
        <TextInput label="Name" maxLength={100} data-autofocus {...form.getInputProps("name")} />
        {budget === null ? (
          <>
            <Select
              label="Node"
              description="Everything below it counts."
              searchable
              allowDeselect={false}
              data={nodes.map((node) => node.path)}
              {...form.getInputProps("node")}
            />
            <div className="budget-pair">
              <TextInput label="User" placeholder="everybody" {...form.getInputProps("user")} />
              <Select
                label="Pool"
                data={[{ value: "", label: "All pools" }, ...pools.map(({ name }) => ({ value: name, label: name }))]}
                allowDeselect={false}
                {...form.getInputProps("pool")}
              />
            </div>
            <Select label="Counts" data={MEASURES} allowDeselect={false} {...form.getInputProps("measure")} />
          </>
        ) : (
          <p className="dim">
            {owner} · {MEASURE_WORDS[budget.measure]} · {budget.pool ?? "all pools"}. These stay.
          </p>
        )}
        <TermsFields form={form} ofUser={values.user.trim() !== ""} />
        {save.error && (
          <p className="bad-text" role="alert">
            {save.error.message}
          </p>
        )}
        <CliLine command={commandOf(values, budget)} />
        <div className="inline end">
          <Button variant="default" onClick={onClose}>
            Back
          </Button>
          <Button type="submit" loading={save.isPending}>
            {budget === null ? "Make budget" : "Save"}
          </Button>
        </div>
      </form>
    </Modal>
  );
}

function commandOf(
  values: { name: string; node: string; limit: string; window: string; days: string; policy: string; measure: string },
  budget: Budget | null,
): string {
  const owner = budget === null ? ` --node ${values.node} --in ${values.measure}` : "";
  const per = values.window === "rolling" ? `${values.days}d` : values.window;
  return `tidegate budgets set "${(budget?.name ?? values.name) || "NAME"}"${owner} --limit ${values.limit || "AMOUNT"} --per ${per} --at-limit ${values.policy}`;
}
