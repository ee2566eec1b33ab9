import { Button, NumberInput, Select, TagsInput, Textarea, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";

import { ApiError } from "../api/client";
import { clusterNodesQuery, clustersQuery } from "../api/queries";
import type { ClusterNode, MaintenanceWindow } from "../api/types";
import { localOfUtc, utcOfLocal } from "../ui/localTime";
import { changeMaintenance, planMaintenance } from "./queries";

const WHOLE_CLUSTER = "the whole cluster";

const NODE_CHOICES = [
  { value: "all", label: "all nodes" },
  { value: "count", label: "a number of nodes" },
  { value: "named", label: "named nodes" },
];

const SUGGESTED_MAX = 50;

/** The names of the nodes of a pool, or of all. */
const namesOf = (nodes: readonly ClusterNode[], pool: string) => [
  ...new Set(nodes.filter((node) => pool === WHOLE_CLUSTER || node.pool === pool).map(({ name }) => name)),
];

/** A new window, or a change of `window`. Times are of this browser's zone. */
export function MaintenanceForm({ window: changed, onDone }: { window?: MaintenanceWindow; onDone: () => void }) {
  const queryClient = useQueryClient();
  const clusters = useQuery(clustersQuery).data ?? [];
  const form = useForm({
    initialValues: {
      cluster: changed?.cluster ?? null,
      pool: changed?.pool ?? WHOLE_CLUSTER,
      which: changed === undefined || changed.nodes === null ? "all" : "named",
      nodeCount: 1 as number | string,
      nodes: changed?.nodes ?? [],
      start: changed === undefined ? "" : localOfUtc(changed.start),
      end: changed === undefined ? "" : localOfUtc(changed.end),
      reason: changed?.reason ?? "",
    },
  });
  const pools = clusters.find(({ name }) => name === form.values.cluster)?.pools.map(({ pool }) => pool) ?? [];
  const nodes = useQuery({
    ...clusterNodesQuery(form.values.cluster ?? ""),
    enabled: form.values.cluster !== null && form.values.which === "named" && changed === undefined,
  });
  const save = useMutation({
    mutationFn: () => {
      const { cluster, pool, reason, which, nodeCount, nodes, ...times } = form.values;
      const start = utcOfLocal(times.start);
      const end = utcOfLocal(times.end) ?? "";
      if (changed === undefined) {
        return planMaintenance({
          cluster: cluster ?? "",
          pool: pool === WHOLE_CLUSTER ? null : pool,
          ...(which === "named" && { nodes }),
          ...(which === "count" && { node_count: Number(nodeCount) }),
          start,
          end,
          reason,
        });
      }
      const isMoved = start !== null && times.start !== localOfUtc(changed.start);
      return changeMaintenance(changed, { end, reason, ...(isMoved && { start }) });
    },
    onSuccess: () => {
      void queryClient.invalidateQueries({ queryKey: ["maintenance"] });
      void queryClient.invalidateQueries({ queryKey: ["announcements"] });
      onDone();
    },
  });
  const refusals = save.error instanceof ApiError ? save.error.fieldErrors : {};
  const isOpen = changed?.state === "open";
  return (
    <form className="stack" onSubmit={form.onSubmit(() => save.mutate())}>
      <Select
        label="Cluster"
        required
        searchable
        data-autofocus
        allowDeselect={false}
        disabled={changed !== undefined}
        data={clusters.map(({ name }) => name)}
        {...form.getInputProps("cluster")}
        error={refusals.cluster}
      />
      <Select
        label="Pool"
        allowDeselect={false}
        disabled={changed !== undefined}
        data={[...new Set([WHOLE_CLUSTER, ...pools, form.values.pool])]}
        {...form.getInputProps("pool")}
        error={refusals.pool}
      />
      <Select
        label="Nodes"
        allowDeselect={false}
        disabled={changed !== undefined}
        data={NODE_CHOICES}
        {...form.getInputProps("which")}
      />
      {form.values.which === "count" && (
        <NumberInput
          label="Number of nodes"
          description="Drained nodes come first, then those with the least work at the start"
          required
          min={1}
          max={1000}
          allowDecimal={false}
          {...form.getInputProps("nodeCount")}
          error={refusals.node_count}
        />
      )}
      {form.values.which === "named" && (
        <TagsInput
          label="Names of nodes"
          description="Choose or paste them, separated by commas"
          required={form.values.nodes.length === 0}
          disabled={changed !== undefined}
          data={namesOf(nodes.data ?? [], form.values.pool)}
          limit={SUGGESTED_MAX}
          {...form.getInputProps("nodes")}
          error={refusals.nodes}
        />
      )}
      <TextInput
        label="From"
        description={isOpen ? "It has begun" : "Empty: at once"}
        type="datetime-local"
        disabled={isOpen}
        {...form.getInputProps("start")}
        error={refusals.start}
      />
      <TextInput label="Until" required type="datetime-local" {...form.getInputProps("end")} error={refusals.end} />
      <Textarea
        label="Reason"
        description="Everybody reads it in the banner"
        required
        maxLength={200}
        {...form.getInputProps("reason")}
        error={refusals.reason}
      />
      {save.error && (
        <p className="bad-text" role="alert">
          {save.error.message}
        </p>
      )}
      <div className="inline end">
        <Button type="submit" loading={save.isPending}>
          {changed === undefined ? "Plan" : "Save"}
        </Button>
      </div>
    </form>
  );
}
