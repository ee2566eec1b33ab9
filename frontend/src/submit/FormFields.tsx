import { Checkbox, MultiSelect, SegmentedControl, Select, TagsInput, Textarea, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { clustersQuery, poolsQuery, priorityClassesQuery } from "../api/queries";
import type { Pool, TreeNode } from "../api/types";
import { LEVEL_WORDS } from "../jobs/words";
import { DEVICE_WORDS, formatGpus, formatMultiplier } from "../ui/units";
import {
  JOB_TYPES,
  LEVELS,
  MAX_FEATURES,
  MAX_OTHER_POOLS,
  NOTICE_SIGNALS,
  parseArray,
  type Draft,
  type DraftErrors,
} from "./draft";
import { imageAdvice } from "./images";

interface CountInputProps {
  label: string;
  unit: string;
  isDecimal?: boolean;
  value: string;
  error: string | undefined;
  onChange: (value: string) => void;
}

/** A short field for a number, with what it counts inside it. */
function CountInput({ label, unit, isDecimal = false, value, error, onChange }: CountInputProps) {
  return (
    <TextInput
      aria-label={label}
      inputMode={isDecimal ? "decimal" : "numeric"}
      w={120}
      value={value}
      error={error}
      rightSection={<span className="faint small">{unit}</span>}
      rightSectionWidth={48}
      onChange={(event) => onChange(event.currentTarget.value)}
    />
  );
}

/** The way to say the size that fits a pool; the one that was chosen where it does. */
function shapeFor(pool: Pool | undefined, { shape }: Draft): Draft["shape"] {
  if (pool === undefined) return shape;
  if (pool.device === "cpu") return "cores";
  return shape === "cores" ? "total" : shape;
}

/** "100 tasks" beside what was typed, as soon as it is an array. */
function ArraySize({ text }: { text: string }) {
  if (text.trim() === "") return null;
  const shape = parseArray(text);
  if ("error" in shape) return null;
  return <span className="faint small">{shape.size === 1 ? "1 task" : `${shape.size.toLocaleString("en")} tasks`}</span>;
}

/** What is asked for, field by field. */
export function FormFields({
  draft,
  set,
  errors,
  nodes,
}: {
  draft: Draft;
  set: (change: Partial<Draft>) => void;
  errors: DraftErrors;
  nodes: readonly TreeNode[];
}) {
  const pools = useQuery(poolsQuery);
  const clusters = useQuery(clustersQuery);
  const organization = nodes.find((node) => node.path === draft.team)?.organization ?? null;
  const classes = useQuery({
    ...priorityClassesQuery(organization ?? ""),
    enabled: organization !== null,
  });
  const chosenClass = classes.data?.find(({ name }) => name === (draft.priorityClass ?? "normal"));
  const offered = (pools.data ?? []).filter((each) => each.archived_at === null);
  const pool = offered.find(({ name }, _, all) => name === (draft.pool ?? (all.length === 1 ? name : null)));
  const [hasMore, setMore] = useState(
    draft.environment !== "" ||
      draft.checkpointPath !== "" ||
      draft.cluster !== null ||
      draft.features.length > 0 ||
      draft.image !== "" ||
      draft.together !== null ||
      draft.cpus !== "" ||
      draft.memory !== "" ||
      draft.beginAt !== "" ||
      draft.dependsOn !== "" || draft.array !== "",
  );
  const isOfCores = draft.shape === "cores";
  const advice = imageAdvice(clusters.data ?? [], pool?.name, draft.cluster);
  const image = (
    <TextInput
      label="Container image"
      description={advice.description}
      placeholder={advice.placeholder}
      required={advice.isNeeded}
      spellCheck={false}
      value={draft.image}
      error={errors.image}
      onChange={(event) => set({ image: event.currentTarget.value })}
    />
  );
  return (
    <>
      <TextInput
        label="Name"
        placeholder="chosen for you if empty"
        value={draft.name}
        error={errors.name}
        onChange={(event) => set({ name: event.currentTarget.value })}
      />
      <div className="even">
        <Select
          label="Pool"
          placeholder="the default pool"
          clearable
          clearButtonProps={{ "aria-label": "The default pool" }}
          data={offered.map(({ name, capacity_mgpu, device }) => ({
            value: name,
            label: `${name} · ${formatGpus(capacity_mgpu)} ${DEVICE_WORDS[device]}`,
          }))}
          value={draft.pool}
          error={errors.pool}
          onChange={(pool) => set({ pool, shape: shapeFor(offered.find(({ name }) => name === pool), draft) })}
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
          value={draft.priorityClass}
          error={errors.priorityClass}
          description={
            chosenClass?.price_multiplier_ppm !== undefined && chosenClass.price_multiplier_ppm !== 1_000_000
              ? `costs ${formatMultiplier(chosenClass.price_multiplier_ppm)}`
              : undefined
          }
          onChange={(priorityClass) => set({ priorityClass })}
        />
      </div>
      <fieldset className="plain-set">
        <legend>{isOfCores ? "CPU cores" : "GPUs"}</legend>
        <div className="inline top">
          <SegmentedControl
            aria-label="How the GPUs are counted"
            data={[
              { value: "total", label: "in total" },
              { value: "per_node", label: "per node" },
              ...(isOfCores || offered.some(({ device }) => device === "cpu")
                ? [{ value: "cores", label: "only CPU cores" }]
                : []),
            ]}
            value={draft.shape}
            onChange={(shape) => set({ shape: shape === "per_node" || shape === "cores" ? shape : "total" })}
          />
          {draft.shape === "total" ? (
            <TextInput
              aria-label="GPUs in total"
              inputMode="decimal"
              w={120}
              value={draft.gpus}
              error={errors.gpus}
              onChange={(event) => set({ gpus: event.currentTarget.value })}
            />
          ) : (
            <>
              <CountInput
                label="Nodes"
                unit="nodes"
                value={draft.nodes}
                error={errors.nodes}
                onChange={(nodes) => set({ nodes })}
              />
              <span className="dim times">×</span>
              {isOfCores ? (
                <CountInput
                  label="Cores per node"
                  unit="cores"
                  value={draft.cpus}
                  error={errors.cpus}
                  onChange={(cpus) => set({ cpus })}
                />
              ) : (
                <CountInput
                  label="GPUs per node"
                  unit="GPUs"
                  isDecimal
                  value={draft.gpusPerNode}
                  error={errors.gpusPerNode}
                  onChange={(gpusPerNode) => set({ gpusPerNode })}
                />
              )}
            </>
          )}
        </div>
        <p className="small faint">
          {draft.shape === "total" ? "4..16 starts as soon as 4 are free" : "2..8 nodes start as soon as 2 are free"},
          with as many as there are then.
        </p>
      </fieldset>
      <TextInput
        label="Time limit"
        placeholder="none"
        description="Such as 90m, 72h, 3d or 1-12:00:00. A job with a limit can start earlier by backfill."
        value={draft.timeLimit}
        error={errors.timeLimit}
        onChange={(event) => set({ timeLimit: event.currentTarget.value })}
      />
      <Textarea
        label="Script"
        required
        autosize
        minRows={7}
        maxRows={24}
        spellCheck={false}
        classNames={{ input: "mono" }}
        value={draft.script}
        error={errors.script}
        onChange={(event) => set({ script: event.currentTarget.value })}
      />
      {advice.isNeeded && image}
      <button
        type="button"
        className="plain link"
        aria-expanded={hasMore}
        onClick={() => setMore(!hasMore)}
      >
        {hasMore ? "▾ Fewer options" : "▸ More options"}
      </button>
      {hasMore && (
        <div className="stack">
          <div className="even">
            <Select
              label="Type"
              placeholder="training"
              clearable
              clearButtonProps={{ "aria-label": "The default type" }}
              data={[...JOB_TYPES]}
              value={draft.type}
              error={errors.type}
              onChange={(type) => set({ type: JOB_TYPES.find((each) => each === type) ?? null })}
            />
            <Select
              label="Cluster"
              placeholder="any"
              clearable
              clearButtonProps={{ "aria-label": "Any cluster" }}
              data={(clusters.data ?? []).filter((each) => each.archived_at === null).map(({ name }) => name)}
              value={draft.cluster}
              error={errors.cluster}
              onChange={(cluster) => set({ cluster })}
            />
          </div>
          {(draft.otherPools.length > 0 || offered.length > 1) && (
            <MultiSelect
              label="Other pools"
              description="The job starts in one of these pools, tried in this order."
              placeholder={draft.otherPools.length === 0 ? "no other pool" : undefined}
              maxValues={MAX_OTHER_POOLS}
              data={offered.map(({ name }) => name).filter((name) => name !== draft.pool)}
              value={draft.otherPools.filter((name) => name !== draft.pool)}
              error={errors.otherPools}
              onChange={(otherPools) => set({ otherPools })}
            />
          )}
          <div className="even">
            {!isOfCores && (
              <TextInput
                label="CPUs on each node"
                placeholder="what comes with the GPUs"
                inputMode="numeric"
                value={draft.cpus}
                error={errors.cpus}
                onChange={(event) => set({ cpus: event.currentTarget.value })}
              />
            )}
            <TextInput
              label="Memory on each node"
              placeholder={`what comes with the ${isOfCores ? "cores" : "GPUs"}, or 64G`}
              value={draft.memory}
              error={errors.memory}
              onChange={(event) => set({ memory: event.currentTarget.value })}
            />
          </div>
          <TagsInput
            label="Features of nodes"
            description="Each node of the job must have all of them."
            placeholder={draft.features.length === 0 ? "any node" : undefined}
            maxTags={MAX_FEATURES}
            data={pool?.features ?? []}
            value={draft.features}
            error={errors.features}
            onChange={(features) => set({ features })}
          />
          <div className="even">
            <Select
              label="Topology"
              description="The nodes of the job in one domain of this level."
              placeholder="anywhere"
              clearable
              clearButtonProps={{ "aria-label": "Nodes anywhere" }}
              data={LEVELS.map((level) => ({ value: level, label: LEVEL_WORDS[level] }))}
              value={draft.together}
              error={errors.together}
              onChange={(together) => set({ together: LEVELS.find((each) => each === together) ?? null })}
            />
            <Checkbox
              label="Wait for such a domain"
              description="Otherwise the job starts on nodes as close together as possible."
              disabled={draft.together === null}
              checked={draft.mustBeTogether}
              onChange={(event) => set({ mustBeTogether: event.currentTarget.checked })}
            />
          </div>
          {!advice.isNeeded && image}
          <Textarea
            label="Environment"
            description="One NAME=VALUE a line."
            autosize
            minRows={2}
            maxRows={12}
            spellCheck={false}
            classNames={{ input: "mono" }}
            value={draft.environment}
            error={errors.environment}
            onChange={(event) => set({ environment: event.currentTarget.value })}
          />
          <div className="even">
            <TextInput
              label="Checkpoint path"
              description="Passed to the next attempt after a preemption."
              value={draft.checkpointPath}
              error={errors.checkpointPath}
              onChange={(event) => set({ checkpointPath: event.currentTarget.value })}
            />
            <Select
              label="Notice signal"
              description="Sent to the job with its reclaim notice."
              placeholder="TERM"
              clearable
              clearButtonProps={{ "aria-label": "The default signal" }}
              data={[...NOTICE_SIGNALS]}
              value={draft.noticeSignal}
              error={errors.noticeSignal}
              onChange={(signal) =>
                set({ noticeSignal: NOTICE_SIGNALS.find((each) => each === signal) ?? null })
              }
            />
          </div>
          <TextInput
            label="Array"
            placeholder="one job"
            description="Indices such as 0-9, 1,3,5-7 or 0-31:4 make a task of each; 0-99%8 runs at most 8 at once."
            value={draft.array}
            error={errors.array}
            rightSection={<ArraySize text={draft.array} />}
            rightSectionWidth={90}
            onChange={(event) => set({ array: event.currentTarget.value })}
          />
          <Textarea
            label="Start after"
            description="One job ID per line; the job must succeed first. Prefix with “ended” or “failed” for another condition, with “array” for a job array."
            autosize
            minRows={1}
            maxRows={8}
            spellCheck={false}
            classNames={{ input: "mono" }}
            value={draft.dependsOn}
            error={errors.dependsOn}
            onChange={(event) => set({ dependsOn: event.currentTarget.value })}
          />
          <Checkbox
            label="Requeue after a preemption or a lost node"
            checked={draft.isRequeueable}
            onChange={(event) => set({ isRequeueable: event.currentTarget.checked })}
          />
          <Checkbox
            label="Allow preemption inside the guarantee"
            checked={draft.isPreemptible}
            onChange={(event) => set({ isPreemptible: event.currentTarget.checked })}
          />
          <TextInput
            label="Begin at"
            description="The job waits until then. Your time zone."
            type="datetime-local"
            w={240}
            value={draft.beginAt}
            error={errors.beginAt}
            onChange={(event) => set({ beginAt: event.currentTarget.value })}
          />
          <Checkbox
            label="Hold the job until I release it"
            checked={draft.isHeld}
            onChange={(event) => set({ isHeld: event.currentTarget.checked })}
          />
        </div>
      )}
    </>
  );
}
