import { Button, SegmentedControl, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { poolsQuery } from "../api/queries";
import { ClusterForm } from "./ClusterForm";
import { OptionInput } from "./OptionInput";
import type { OptionField } from "./options";
import { MAIN_FIELDS, MORE_FIELDS, NO_POOL, readOptions, type PoolFields, type SlurmFields } from "./slurmOptions";

const SHOWN = ["pools", ...[...MAIN_FIELDS, ...MORE_FIELDS].map((field) => field.name)];

/** A new Slurm cluster. The options of one that is there are not shown again: they may hold a secret. */
export function SlurmForm() {
  const [fields, setFields] = useState<SlurmFields>({ texts: {}, pools: [NO_POOL], isFast: false });
  return (
    <ClusterForm kind="slurm" reading={readOptions(fields)} fields={SHOWN}>
      {(errorOf) => {
        const input = (field: OptionField) => (
          <OptionInput
            key={field.name}
            field={field}
            value={fields.texts[field.name]}
            error={errorOf(field.name)}
            onChange={(text) => setFields({ ...fields, texts: { ...fields.texts, [field.name]: text } })}
          />
        );
        return (
          <>
            {MAIN_FIELDS.map(input)}
            <PoolRows
              pools={fields.pools}
              error={errorOf("pools")}
              onChange={(pools) => setFields({ ...fields, pools })}
            />
            <div>
              <div id="settling">Starts</div>
              <p className="dim small">
                Strict: a job is let go only when the controller has saved it, about 8 s later. Fast: at once; a
                controller that crashes within these seconds may lose the job, which is then started again.
              </p>
              <SegmentedControl
                aria-labelledby="settling"
                value={fields.isFast ? "fast" : "strict"}
                onChange={(value) => setFields({ ...fields, isFast: value === "fast" })}
                data={[
                  { value: "strict", label: "Strict" },
                  { value: "fast", label: "Fast" },
                ]}
              />
            </div>
            <details className="advanced" open={MORE_FIELDS.some((field) => errorOf(field.name)) || undefined}>
              <summary>More options; what is empty is as said</summary>
              <div className="stack">{MORE_FIELDS.map(input)}</div>
            </details>
          </>
        );
      }}
    </ClusterForm>
  );
}

function PoolRows({
  pools,
  error,
  onChange,
}: {
  pools: readonly PoolFields[];
  error: string | undefined;
  onChange: (pools: PoolFields[]) => void;
}) {
  const known = (useQuery(poolsQuery).data ?? []).filter((each) => each.archived_at === null);
  const set = (at: number, change: Partial<PoolFields>) =>
    onChange(pools.map((pool, i) => (i === at ? { ...pool, ...change } : pool)));
  return (
    <fieldset className="advanced stack">
      <legend>Pools</legend>
      <p className="dim small">
        Which of the portal&apos;s pools this cluster has: in which partition, and what its GPUs are called in gres.conf.
        {known.length > 0 && ` There are: ${known.map((pool) => pool.name).join(", ")}.`}
      </p>
      {pools.map((pool, i) => (
        <div className="pool-row" key={i}>
          <TextInput
            label="Pool"
            required
            placeholder={known[0]?.name ?? "h100"}
            value={pool.pool}
            onChange={(event) => set(i, { pool: event.currentTarget.value })}
          />
          <TextInput
            label="Partition"
            required
            placeholder="gpu"
            value={pool.partition}
            onChange={(event) => set(i, { partition: event.currentTarget.value })}
          />
          <TextInput
            label="GPU type"
            required
            placeholder="h100"
            value={pool.gres_type}
            onChange={(event) => set(i, { gres_type: event.currentTarget.value })}
          />
          <TextInput
            label="Features"
            placeholder="any"
            value={pool.constraint}
            onChange={(event) => set(i, { constraint: event.currentTarget.value })}
          />
          <Button
            variant="default"
            aria-label={`Remove pool ${i + 1}`}
            disabled={pools.length === 1}
            onClick={() => onChange(pools.filter((_, at) => at !== i))}
          >
            Remove
          </Button>
        </div>
      ))}
      {error && (
        <p className="bad-text" role="alert">
          {error}
        </p>
      )}
      <div>
        <Button variant="default" size="xs" onClick={() => onChange([...pools, NO_POOL])}>
          Another pool
        </Button>
      </div>
    </fieldset>
  );
}
