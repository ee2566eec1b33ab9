import { Button, Checkbox, SegmentedControl, Select, Textarea } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useQuery } from "@tanstack/react-query";

import { poolsQuery } from "../api/queries";
import type { Cluster } from "../api/types";
import { ClusterForm } from "./ClusterForm";
import {
  ACCOUNT_FIELDS,
  ALLOWED,
  FEATURES_HELP,
  fieldsOf,
  KUBECONFIG_FIELDS,
  LEVEL,
  LOG_ROOT,
  MORE_CORES_FIELDS,
  MORE_FIELDS,
  MORE_POOL_FIELDS,
  NO_FIELDS,
  NO_POOL,
  POOL_FIELDS,
  QUEUE,
  readKubernetes,
  SCHEDULERS,
  SHOWN,
  WORKLOAD_KINDS,
  type Device,
  type KubernetesFields,
  type KubernetesPoolFields,
  type Placing,
  type Registries,
} from "./kubernetesOptions";
import { OptionInput } from "./OptionInput";
import type { OptionField } from "./options";

const SCHEDULER_WORDS: Record<string, string> = { kueue: "Kueue", volcano: "Volcano", kai: "KAI", yunikorn: "YuniKorn" };
const KIND_WORDS: Record<string, string> = {
  job: "Job",
  jobset: "JobSet",
  trainjob: "TrainJob",
  pytorchjob: "PyTorchJob",
  mpijob: "MPIJob",
  rayjob: "RayJob",
};

/** A new Kubernetes cluster, or other options of one that is there. */
export function KubernetesForm({ cluster }: { cluster?: Cluster }) {
  const form = useForm<KubernetesFields>({
    initialValues: cluster?.options ? fieldsOf(cluster.options) : NO_FIELDS,
  });
  const fields = form.values;
  const set = form.setValues;
  const hasKueue = fields.scheduler === "kueue";
  const more = hasKueue ? [...MORE_FIELDS, ...ACCOUNT_FIELDS] : [QUEUE, ...MORE_FIELDS];
  return (
    <ClusterForm kind="kubernetes" reading={readKubernetes(fields)} fields={SHOWN} cluster={cluster}>
      {(errorOf) => {
        const setText = (name: string, text: string) => set({ texts: { ...fields.texts, [name]: text } });
        const input = (field: OptionField) => (
          <OptionInput
            key={field.name}
            field={field}
            value={fields.texts[field.name] ?? ""}
            error={errorOf(field.name)}
            onChange={(event) => setText(field.name, event.currentTarget.value)}
          />
        );
        return (
          <>
            <Choice
              label="Access"
              value={fields.isInCluster ? "inside" : "file"}
              choices={{ file: "By a kubeconfig", inside: "The portal runs in it" }}
              onChange={(value) => set({ isInCluster: value === "inside" })}
            />
            {fields.isInCluster ? null : <div className="even top">{KUBECONFIG_FIELDS.map(input)}</div>}
            <div className="even top">
              <Select
                label="Scheduler"
                description="Who places the Pods."
                allowDeselect={false}
                data={SCHEDULERS.map((value) => ({ value, label: SCHEDULER_WORDS[value] ?? value }))}
                value={fields.scheduler}
                onChange={(scheduler) => set({ scheduler: scheduler ?? "kueue" })}
              />
              {hasKueue && (
                <Select
                  label="Kind of workload"
                  description="What each start becomes there."
                  allowDeselect={false}
                  data={WORKLOAD_KINDS.map((value) => ({ value, label: KIND_WORDS[value] ?? value }))}
                  value={fields.kind}
                  onChange={(kind) => set({ kind: kind ?? "job" })}
                />
              )}
            </div>
            {hasKueue && (
              <Choice
                label="Quotas"
                help="Arbiter: Kueue's quotas are wide and hold nothing back that was granted here. Shared: they are the tree's own, and hold while the portal is away too."
                value={fields.isShared ? "shared" : "arbiter"}
                choices={{ arbiter: "Arbiter", shared: "Shared" }}
                onChange={(value) => set({ isShared: value === "shared" })}
              />
            )}
            {hasKueue && (
              <Choice
                label="Workloads without a queue"
                help="What people create in a team's namespace without the label of a queue. Take: it joins the team's queue. Refuse: it is not created; take policy tidegate-take away on the cluster, too."
                value={fields.refusesUnlabelled ? "refuse" : "take"}
                choices={{ take: "Take", refuse: "Refuse" }}
                onChange={(value) => set({ refusesUnlabelled: value === "refuse" })}
              />
            )}
            <Pools pools={fields.pools} error={errorOf("pools")} onChange={(pools) => set({ pools })} />
            <Choice
              label="Images of jobs"
              help="From where they may be drawn. A pool's own image is always allowed."
              value={fields.registries}
              choices={{ all: "From anywhere", listed: "Listed", own: "Pools' own" }}
              onChange={(registries) => set({ registries: registries as Registries })}
            />
            {fields.registries === "listed" && input(ALLOWED)}
            {fields.registries !== "own" && (
              <Checkbox
                label="They must be named with their digest (@sha256:…)"
                checked={fields.requiresDigest}
                onChange={(event) => set({ requiresDigest: event.currentTarget.checked })}
              />
            )}
            {input(LOG_ROOT)}
            <details
              className="advanced"
              open={errorOf("features") !== undefined || more.some((field) => errorOf(field.name)) || undefined}
            >
              <summary>More options; what is empty is as said</summary>
              <div className="stack">
                {more.map(input)}
                <Textarea
                  label="Features"
                  description={FEATURES_HELP}
                  placeholder="nvlink=nvidia.com/nvlink.present=true"
                  autosize
                  minRows={2}
                  maxRows={12}
                  spellCheck={false}
                  classNames={{ input: "mono" }}
                  value={fields.texts.features ?? ""}
                  error={errorOf("features")}
                  onChange={(event) => setText("features", event.currentTarget.value)}
                />
              </div>
            </details>
          </>
        );
      }}
    </ClusterForm>
  );
}

/** One of a few, with a sentence on what they mean. */
function Choice({
  label,
  help,
  value,
  choices,
  onChange,
}: {
  label: string;
  help?: string;
  value: string;
  choices: Readonly<Record<string, string>>;
  onChange: (value: string) => void;
}) {
  return (
    <div>
      <div aria-hidden>{label}</div>
      {help && <p className="dim small">{help}</p>}
      <SegmentedControl
        aria-label={label}
        value={value}
        onChange={onChange}
        data={Object.entries(choices).map(([each, words]) => ({ value: each, label: words }))}
      />
    </div>
  );
}

function Pools({
  pools,
  error,
  onChange,
}: {
  pools: readonly KubernetesPoolFields[];
  error: string | undefined;
  onChange: (pools: KubernetesPoolFields[]) => void;
}) {
  const known = (useQuery(poolsQuery).data ?? []).filter((each) => each.archived_at === null);
  const set = (at: number, change: Partial<KubernetesPoolFields>) =>
    onChange(pools.map((pool, i) => (i === at ? { ...pool, ...change } : pool)));
  return (
    <fieldset className="advanced stack">
      <legend>Pools</legend>
      <p className="dim small">
        Which of the portal&apos;s pools this cluster has, and which nodes are theirs.
        {known.length > 0 && ` There are: ${known.map((pool) => pool.name).join(", ")}.`}
      </p>
      {pools.map((pool, i) => {
        const input = (field: OptionField) => (
          <OptionInput
            key={field.name}
            field={field}
            value={pool.texts[field.name] ?? ""}
            error={undefined}
            onChange={(event) => set(i, { texts: { ...pool.texts, [field.name]: event.currentTarget.value } })}
          />
        );
        return (
          <fieldset className="plain-set stack pool-block" key={i}>
            <legend className="visually-hidden">{pool.texts.pool || `Pool ${i + 1}`}</legend>
            <div className="pool-head">{POOL_FIELDS.map(input)}</div>
            <Choice
              label="Devices"
              value={pool.device}
              choices={{ gpu: "GPUs", cpu: "CPU cores" }}
              onChange={(device) => set(i, { device: device as Device })}
            />
            <details className="advanced">
              <summary>More of this pool</summary>
              <div className="stack">
                <div className="even top">
                  {(pool.device === "gpu" ? MORE_POOL_FIELDS : MORE_CORES_FIELDS).map(input)}
                </div>
                {pool.device === "gpu" && (
                  <>
                    <Choice
                      label="Keep the ranks of a job together"
                      value={pool.placing}
                      choices={{ any: "No", preferred: "If possible", required: "Always" }}
                      onChange={(placing) => set(i, { placing: placing as Placing })}
                    />
                    {pool.placing !== "any" && input(LEVEL)}
                  </>
                )}
              </div>
            </details>
            {pools.length > 1 && (
              <div>
                <Button
                  variant="default"
                  size="xs"
                  aria-label={`Remove pool ${i + 1}`}
                  onClick={() => onChange(pools.filter((_, at) => at !== i))}
                >
                  Remove
                </Button>
              </div>
            )}
          </fieldset>
        );
      })}
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
