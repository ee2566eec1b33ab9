import { Button, SegmentedControl, TextInput } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { useState } from "react";

import { ApiError, client, unwrap } from "../api/client";
import { poolsQuery } from "../api/queries";
import { may } from "../session/access";
import { useSession } from "../session/useSession";
import { toastDone } from "../ui/toast";
import { usePageTitle } from "../ui/usePageTitle";
import {
  fieldOf,
  MAIN_FIELDS,
  MORE_FIELDS,
  NO_POOL,
  readOptions,
  type OptionField,
  type PoolFields,
  type SlurmFields,
} from "./slurmOptions";
import "./cluster.css";

/** A Slurm cluster by form. Other kinds are added over the API. */
export function AddClusterPage() {
  usePageTitle("Add a cluster");
  return may(useSession(), "manage_clusters", "") ? (
    <>
      <p className="small">
        <Link to="/clusters">Clusters</Link>
      </p>
      <h1>Add a Slurm cluster</h1>
      <p className="sub">It is asked as soon as it is added; its page then says what it has, or why it does not answer.</p>
      <SlurmForm />
    </>
  ) : (
    <div className="card empty">
      <h1>Not for you</h1>
      <p>Clusters are added by platform administrators.</p>
      <Link to="/clusters">Clusters</Link>
    </div>
  );
}

function SlurmForm() {
  const navigate = useNavigate();
  const queryClient = useQueryClient();
  const [name, setName] = useState("");
  const [fields, setFields] = useState<SlurmFields>({ texts: {}, pools: [NO_POOL], isFast: false });
  const [isTried, setTried] = useState(false);
  const { options, problems } = readOptions(fields);
  const add = useMutation({
    mutationFn: () =>
      unwrap(client.POST("/api/v1/clusters", { body: { name: name.trim(), kind: "slurm", options, is_enabled: true } })),
    onSuccess: (cluster) => {
      toastDone(`Cluster ${cluster.name} was added`);
      void queryClient.invalidateQueries({ queryKey: ["clusters"] });
      void navigate({ to: "/clusters/$name", params: { name: cluster.name } });
    },
  });
  const refusals = add.error instanceof ApiError ? add.error.fieldErrors : {};
  const refused = fieldOf(refusals.options ?? "");
  const errorOf = (field: string) =>
    (isTried ? problems[field] : undefined) ?? (refused === field ? refusals.options : undefined);
  const isShown = refusals.name !== undefined || (refused !== null && [...MAIN_FIELDS, ...MORE_FIELDS].some((each) => each.name === refused));
  const set = (field: string, text: string) => setFields({ ...fields, texts: { ...fields.texts, [field]: text } });
  const input = (field: OptionField) => (
    <TextInput
      key={field.name}
      label={field.label}
      description={field.help}
      placeholder={field.placeholder}
      required={field.isRequired}
      inputMode={field.isNumber ? "numeric" : undefined}
      spellCheck={false}
      value={fields.texts[field.name] ?? ""}
      error={errorOf(field.name)}
      onChange={(event) => set(field.name, event.currentTarget.value)}
    />
  );
  return (
    <form
      noValidate
      className="card stack form-width"
      onSubmit={(event) => {
        event.preventDefault();
        setTried(true);
        if (Object.keys(problems).length === 0 && name.trim() !== "") add.mutate();
      }}
    >
      <TextInput
        label="Name"
        description="How it is called here: lower-case letters, digits and -."
        placeholder="hpc"
        required
        maxLength={63}
        value={name}
        error={refusals.name ?? (isTried && name.trim() === "" ? "is needed" : undefined)}
        onChange={(event) => setName(event.currentTarget.value)}
      />
      {MAIN_FIELDS.map(input)}
      <PoolRows
        pools={fields.pools}
        error={errorOf("pools")}
        onChange={(pools) => setFields({ ...fields, pools })}
      />
      <div>
        <div id="settling">Starts</div>
        <p className="dim small">
          Strict: a job is let go only when the controller has saved it, about 8 s later. Fast: at once; a controller
          that crashes within these seconds may lose the job, which is then started again.
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
      {add.error && !isShown && (
        <p className="bad-text" role="alert">
          {refusals.options ?? add.error.message}
        </p>
      )}
      {isTried && Object.keys(problems).length > 0 && (
        <p className="bad-text" role="alert">
          Something is missing above.
        </p>
      )}
      <div className="inline end">
        <Link to="/clusters" className="button-like">
          Back
        </Link>
        <Button type="submit" loading={add.isPending}>
          Add the cluster
        </Button>
      </div>
    </form>
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
  const known = useQuery(poolsQuery).data ?? [];
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
