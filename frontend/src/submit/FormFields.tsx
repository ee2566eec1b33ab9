import { Checkbox, MultiSelect, SegmentedControl, Select, TagsInput, Textarea, TextInput, type TextInputProps } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { clustersQuery, poolsQuery } from "../api/queries";
import type { Pool, TreeNode } from "../api/types";
import { LAUNCH_WORDS, LEVEL_WORDS } from "../jobs/words";
import {
  JOB_TYPES,
  LAUNCHES,
  LEVELS,
  MAX_FEATURES,
  MAX_OTHER_POOLS,
  NOTICE_SIGNALS,
  parseArray,
  type Draft,
  type DraftForm,
} from "./draft";
import { imageAdvice } from "./images";
import { ClusterInput, PoolAndClass, TimeLimitInput } from "./PlaceFields";

/** A short field for a number, with what it counts inside it. */
function CountInput({ label, unit, ...props }: { label: string; unit: string } & TextInputProps) {
  return (
    <TextInput
      aria-label={label}
      inputMode="numeric"
      w={120}
      rightSection={<span className="faint small">{unit}</span>}
      rightSectionWidth={48}
      {...props}
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

/** The arguments of the script, for both ways to give one. */
export function ArgumentsInput({ form }: { form: DraftForm }) {
  return (
    <Textarea
      label="Arguments of the script"
      description="One per line."
      autosize
      minRows={1}
      maxRows={8}
      spellCheck={false}
      classNames={{ input: "mono" }}
      {...form.getInputProps("arguments")}
    />
  );
}

/** What is asked for, field by field. */
export function FormFields({
  form,
  nodes,
}: {
  form: DraftForm;
  nodes: readonly TreeNode[];
}) {
  const draft = form.values;
  const pools = useQuery(poolsQuery);
  const clusters = useQuery(clustersQuery);
  const offered = (pools.data ?? []).filter((each) => each.archived_at === null);
  const pool = offered.find(({ name }, _, all) => name === (draft.pool ?? (all.length === 1 ? name : null)));
  const [hasMore, setMore] = useState(
    draft.environment !== "" ||
      draft.checkpointPath !== "" ||
      draft.signalAhead !== "" ||
      draft.signalsShellOnly ||
      draft.cluster !== null ||
      draft.features.length > 0 ||
      draft.image !== "" ||
      draft.together !== null ||
      draft.cpus !== "" ||
      draft.memory !== "" ||
      draft.beginAt !== "" ||
      draft.requeueOn !== "" ||
      draft.launch !== "per_node" ||
      draft.arguments !== "" ||
      draft.folder !== "" || draft.outputFile !== "" || draft.errorFile !== "" ||
      draft.dependsOn !== "" || draft.isSingleton || draft.array !== "",
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
      {...form.getInputProps("image")}
    />
  );
  return (
    <>
      <TextInput
        label="Name"
        placeholder="chosen for you if empty"
        {...form.getInputProps("name")}
      />
      <PoolAndClass
        form={form}
        nodes={nodes}
        onPool={(pool) => form.setValues({ pool: pool?.name ?? null, shape: shapeFor(pool, draft) })}
      />
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
            onChange={(shape) => form.setValues({ shape: shape === "per_node" || shape === "cores" ? shape : "total" })}
          />
          {draft.shape === "total" ? (
            <TextInput aria-label="GPUs in total" inputMode="decimal" w={120} {...form.getInputProps("gpus")} />
          ) : (
            <>
              <CountInput label="Nodes" unit="nodes" {...form.getInputProps("nodes")} />
              <span className="dim times">×</span>
              {isOfCores ? (
                <CountInput label="Cores per node" unit="cores" {...form.getInputProps("cpus")} />
              ) : (
                <CountInput
                  label="GPUs per node"
                  unit="GPUs"
                  inputMode="decimal"
                  {...form.getInputProps("gpusPerNode")}
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
      <TimeLimitInput form={form} />
      <Textarea
        label="Script"
        required
        autosize
        minRows={7}
        maxRows={24}
        spellCheck={false}
        classNames={{ input: "mono" }}
        {...form.getInputProps("script")}
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
              {...form.getInputProps("type")}
              onChange={(type) => form.setValues({ type: JOB_TYPES.find((each) => each === type) ?? null })}
            />
            <ClusterInput form={form} />
          </div>
          {(draft.otherPools.length > 0 || offered.length > 1) && (
            <MultiSelect
              label="Other pools"
              description="The job starts in one of these pools, tried in this order."
              placeholder={draft.otherPools.length === 0 ? "no other pool" : undefined}
              maxValues={MAX_OTHER_POOLS}
              data={offered.map(({ name }) => name).filter((name) => name !== draft.pool)}
              {...form.getInputProps("otherPools")}
              value={draft.otherPools.filter((name) => name !== draft.pool)}
            />
          )}
          <div className="even">
            {!isOfCores && (
              <TextInput
                label="CPUs on each node"
                placeholder="what comes with the GPUs"
                inputMode="numeric"
                {...form.getInputProps("cpus")}
              />
            )}
            <TextInput
              label="Memory on each node"
              placeholder={`what comes with the ${isOfCores ? "cores" : "GPUs"}, or 64G`}
              {...form.getInputProps("memory")}
            />
          </div>
          <TagsInput
            label="Features of nodes"
            description="Each node of the job must have all of them."
            placeholder={draft.features.length === 0 ? "any node" : undefined}
            maxTags={MAX_FEATURES}
            data={pool?.features ?? []}
            {...form.getInputProps("features")}
          />
          <div className="even">
            <Select
              label="Topology"
              description="The nodes of the job in one domain of this level."
              placeholder="anywhere"
              clearable
              clearButtonProps={{ "aria-label": "Nodes anywhere" }}
              data={LEVELS.map((level) => ({ value: level, label: LEVEL_WORDS[level] }))}
              {...form.getInputProps("together")}
              onChange={(together) => form.setValues({ together: LEVELS.find((each) => each === together) ?? null })}
            />
            <Checkbox
              label="Wait for such a domain"
              description="Otherwise the job starts on nodes as close together as possible."
              disabled={draft.together === null}
              {...form.getInputProps("mustBeTogether", { type: "checkbox" })}
            />
          </div>
          {!advice.isNeeded && image}
          <div className="even">
            <Select
              label="Script runs"
              description={
                draft.launch === "batch" ? "It starts tasks on the nodes with srun." : "It knows its node by NODE_RANK."
              }
              allowDeselect={false}
              data={LAUNCHES.map((each) => ({ value: each, label: LAUNCH_WORDS[each] }))}
              {...form.getInputProps("launch")}
              onChange={(launch) => form.setValues({ launch: LAUNCHES.find((each) => each === launch) ?? "per_node" })}
            />
            <ArgumentsInput form={form} />
          </div>
          {draft.launch === "batch" && (
            <>
              <div className="even">
                <TextInput label="Tasks" placeholder="one on each node" inputMode="numeric" {...form.getInputProps("tasks")} />
                <TextInput
                  label="Tasks on each node"
                  placeholder="spread evenly"
                  inputMode="numeric"
                  {...form.getInputProps("tasksPerNode")}
                />
              </div>
              <div className="even">
                <TextInput label="CPUs of each task" placeholder="1" inputMode="numeric" {...form.getInputProps("cpusPerTask")} />
                <TextInput
                  label="GPUs of each task"
                  placeholder="all of its node"
                  inputMode="numeric"
                  {...form.getInputProps("gpusPerTask")}
                />
              </div>
            </>
          )}
          <div className="even">
            <TextInput
              label="Folder"
              description="The script starts there."
              placeholder="the job's own folder"
              spellCheck={false}
              {...form.getInputProps("folder")}
            />
            <Checkbox
              label="Add to files that exist"
              description="Otherwise each start empties them."
              {...form.getInputProps("appendsOutput", { type: "checkbox" })}
            />
          </div>
          <div className="even">
            <TextInput
              label="Output file"
              description="Gets the output beside the log: logs/%x-%j.out."
              placeholder="the log alone"
              spellCheck={false}
              {...form.getInputProps("outputFile")}
            />
            <TextInput
              label="Error file"
              description="Gets the errors beside the log."
              placeholder="the output file"
              spellCheck={false}
              {...form.getInputProps("errorFile")}
            />
          </div>
          <Textarea
            label="Environment"
            description="One NAME=VALUE a line."
            autosize
            minRows={2}
            maxRows={12}
            spellCheck={false}
            classNames={{ input: "mono" }}
            {...form.getInputProps("environment")}
          />
          <div className="even">
            <TextInput
              label="Checkpoint path"
              description="Passed to the next attempt after a preemption."
              {...form.getInputProps("checkpointPath")}
            />
            <Select
              label="Notice signal"
              description="Sent to the job with its reclaim notice."
              placeholder="TERM"
              clearable
              clearButtonProps={{ "aria-label": "The default signal" }}
              data={[...NOTICE_SIGNALS]}
              {...form.getInputProps("noticeSignal")}
              onChange={(signal) =>
                form.setValues({ noticeSignal: NOTICE_SIGNALS.find((each) => each === signal) ?? null })
              }
            />
          </div>
          <div className="even">
            <TextInput
              label="Notice before the time limit"
              placeholder="grace of the priority class"
              description="Such as 10m. At most half of the time limit."
              {...form.getInputProps("signalAhead")}
            />
            <Checkbox
              label="Notice to the script's shell alone"
              description="Otherwise each process gets the notice, and the shell only if it has a handler."
              {...form.getInputProps("signalsShellOnly", { type: "checkbox" })}
            />
          </div>
          <TextInput
            label="Array"
            placeholder="one job"
            description="Indices such as 0-9, 1,3,5-7 or 0-31:4 make a task of each; 0-99%8 runs at most 8 at once."
            rightSection={<ArraySize text={draft.array} />}
            rightSectionWidth={90}
            {...form.getInputProps("array")}
          />
          <Textarea
            label="Start after"
            description="One job ID per line; the job must succeed first. Prefix with “ended” or “failed” for another condition, with “array” for a job array."
            autosize
            minRows={1}
            maxRows={8}
            spellCheck={false}
            classNames={{ input: "mono" }}
            {...form.getInputProps("dependsOn")}
          />
          <Checkbox
            label="Start after my other jobs of this name"
            description="Jobs of one name run one after the other."
            {...form.getInputProps("isSingleton", { type: "checkbox" })}
          />
          <Checkbox
            label="Requeue after a preemption or a lost node"
            {...form.getInputProps("isRequeueable", { type: "checkbox" })}
          />
          <TextInput
            label="Requeue also after"
            description="time_limit, or exit codes. Empty: then the job has ended."
            placeholder="time_limit, 75"
            {...form.getInputProps("requeueOn")}
          />
          <TextInput
            label="Requeue at most"
            description="How often after such an end."
            placeholder="10"
            inputMode="numeric"
            w={240}
            disabled={draft.requeueOn.trim() === ""}
            {...form.getInputProps("requeueMax")}
          />
          <TextInput
            label="Cost cap"
            description="The job gets its notice and ends once its charge reaches this."
            placeholder="none"
            inputMode="decimal"
            w={240}
            {...form.getInputProps("costCap")}
          />
          <Checkbox
            label="Allow preemption inside the guarantee"
            {...form.getInputProps("isPreemptible", { type: "checkbox" })}
          />
          <TextInput
            label="Begin at"
            description="The job waits until then. Your time zone."
            type="datetime-local"
            w={240}
            {...form.getInputProps("beginAt")}
          />
          <Checkbox
            label="Hold the job until I release it"
            {...form.getInputProps("isHeld", { type: "checkbox" })}
          />
        </div>
      )}
    </>
  );
}
