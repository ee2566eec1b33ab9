import { Button, SegmentedControl, TextInput } from "@mantine/core";
import { useForm, type UseFormReturnType } from "@mantine/form";
import { useQuery } from "@tanstack/react-query";

import { poolsQuery } from "../api/queries";
import { ClusterForm } from "./ClusterForm";
import { OptionInput } from "./OptionInput";
import type { OptionField } from "./options";
import { MAIN_FIELDS, MORE_FIELDS, NO_POOL, readOptions, type SlurmFields } from "./slurmOptions";

/** Every option is empty at first. */
const NO_TEXTS = Object.fromEntries([...MAIN_FIELDS, ...MORE_FIELDS].map((field) => [field.name, ""]));
const SHOWN = ["pools", ...[...MAIN_FIELDS, ...MORE_FIELDS].map((field) => field.name)];

/** A new Slurm cluster. The options of one that is there are not shown again: they may hold a secret. */
export function SlurmForm() {
  const form = useForm<SlurmFields>({ initialValues: { texts: NO_TEXTS, pools: [NO_POOL], isFast: false } });
  return (
    <ClusterForm kind="slurm" reading={readOptions(form.values)} fields={SHOWN}>
      {(errorOf) => {
        const input = (field: OptionField) => (
          <OptionInput
            key={field.name}
            field={field}
            {...form.getInputProps(`texts.${field.name}`)}
            error={errorOf(field.name)}
          />
        );
        return (
          <>
            {MAIN_FIELDS.map(input)}
            <PoolRows form={form} error={errorOf("pools")} />
            <div>
              <div id="settling">Starts</div>
              <p className="dim small">
                Strict: a job is let go only when the controller has saved it, about 8 s later. Fast: at once; a
                controller that crashes within these seconds may lose the job, which is then started again.
              </p>
              <SegmentedControl
                aria-labelledby="settling"
                value={form.values.isFast ? "fast" : "strict"}
                onChange={(value) => form.setFieldValue("isFast", value === "fast")}
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

function PoolRows({ form, error }: { form: UseFormReturnType<SlurmFields>; error: string | undefined }) {
  const known = (useQuery(poolsQuery).data ?? []).filter((each) => each.archived_at === null);
  const { pools } = form.values;
  return (
    <fieldset className="advanced stack">
      <legend>Pools</legend>
      <p className="dim small">
        Which of the portal&apos;s pools this cluster has: in which partition, and what its GPUs are called in gres.conf.
        {known.length > 0 && ` There are: ${known.map((pool) => pool.name).join(", ")}.`}
      </p>
      {pools.map((_, i) => (
        <div className="pool-row" key={i}>
          <TextInput
            label="Pool"
            required
            placeholder={known[0]?.name ?? "h100"}
            {...form.getInputProps(`pools.${i}.pool`)}
          />
          <TextInput
            label="Partition"
            required
            placeholder="gpu"
            {...form.getInputProps(`pools.${i}.partition`)}
          />
          <TextInput
            label="GPU type"
            required
            placeholder="h100"
            {...form.getInputProps(`pools.${i}.gres_type`)}
          />
          <TextInput
            label="Features"
            placeholder="any"
            {...form.getInputProps(`pools.${i}.constraint`)}
          />
          <Button
            variant="default"
            aria-label={`Remove pool ${i + 1}`}
            disabled={pools.length === 1}
            onClick={() => form.removeListItem("pools", i)}
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
        <Button variant="default" size="xs" onClick={() => form.insertListItem("pools", NO_POOL)}>
          Another pool
        </Button>
      </div>
    </fieldset>
  );
}
