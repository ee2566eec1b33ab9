import { Select, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";

import { clustersQuery, poolsQuery, priorityClassesQuery } from "../api/queries";
import type { Pool, TreeNode } from "../api/types";
import { DEVICE_WORDS, formatGpus, formatMultiplier } from "../ui/units";
import type { DraftForm } from "./draft";

/** Where the job runs, and its priority, for the form and for manifests. */
export function PoolAndClass({
  form,
  nodes,
  onPool,
  defaultPool = "the default pool",
}: {
  form: DraftForm;
  nodes: readonly TreeNode[];
  onPool: (pool: Pool | undefined) => void;
  defaultPool?: string;
}) {
  const draft = form.values;
  const pools = useQuery(poolsQuery);
  const organization = nodes.find((node) => node.path === draft.team)?.organization ?? null;
  const classes = useQuery({
    ...priorityClassesQuery(organization ?? ""),
    enabled: organization !== null,
  });
  const chosenClass = classes.data?.find(({ name }) => name === (draft.priorityClass ?? "normal"));
  const offered = (pools.data ?? []).filter((each) => each.archived_at === null);
  return (
    <div className="even">
      <Select
        label="Pool"
        placeholder={defaultPool}
        clearable
        clearButtonProps={{ "aria-label": "The default pool" }}
        data={offered.map(({ name, capacity_mgpu, device }) => ({
          value: name,
          label: `${name} · ${formatGpus(capacity_mgpu)} ${DEVICE_WORDS[device]}`,
        }))}
        {...form.getInputProps("pool")}
        onChange={(pool: string | null) => onPool(offered.find(({ name }) => name === pool))}
      />
      <Select
        label="Priority class"
        placeholder="normal"
        clearable
        clearButtonProps={{ "aria-label": "The default class" }}
        disabled={draft.team === null}
        data={(classes.data ?? []).filter((each) => !each.is_retired).map(({ name, description }) => ({
          value: name,
          label: description ? `${name} · ${description}` : name,
        }))}
        description={
          chosenClass?.price_multiplier_ppm !== undefined && chosenClass.price_multiplier_ppm !== 1_000_000
            ? `costs ${formatMultiplier(chosenClass.price_multiplier_ppm)}`
            : undefined
        }
        {...form.getInputProps("priorityClass")}
      />
    </div>
  );
}

/** The longest time that the job may run. */
export function TimeLimitInput({ form }: { form: DraftForm }) {
  return (
    <TextInput
      label="Time limit"
      placeholder="none"
      description="Such as 90m, 72h, 3d or 1-12:00:00. A job with a limit can start earlier by backfill."
      {...form.getInputProps("timeLimit")}
    />
  );
}

/** The only cluster where the job may run. */
export function ClusterInput({ form }: { form: DraftForm }) {
  const clusters = useQuery(clustersQuery);
  return (
    <Select
      label="Cluster"
      placeholder="any"
      clearable
      clearButtonProps={{ "aria-label": "Any cluster" }}
      data={(clusters.data ?? []).filter((each) => each.archived_at === null).map(({ name }) => name)}
      {...form.getInputProps("cluster")}
    />
  );
}

/** What a manifest does not say itself. */
export function ManifestFields({ form, nodes }: { form: DraftForm; nodes: readonly TreeNode[] }) {
  return (
    <>
      <PoolAndClass
        form={form}
        nodes={nodes}
        onPool={(pool) => form.setValues({ pool: pool?.name ?? null, otherPools: [] })}
        defaultPool="the pool with its GPUs"
      />
      <div className="even">
        <TimeLimitInput form={form} />
        <ClusterInput form={form} />
      </div>
    </>
  );
}
