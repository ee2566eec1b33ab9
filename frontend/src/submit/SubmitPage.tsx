import { Button, Checkbox, MultiSelect, SegmentedControl, Select, TagsInput, Textarea, TextInput } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { keepPreviousData, queryOptions, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useMemo, useRef, useState } from "react";

import { ApiError, client, unwrap } from "../api/client";
import { clustersQuery, jobQuery, poolsQuery, priorityClassesQuery, treeQuery } from "../api/queries";
import type { Job, JobPlan, JobRequest, Pool, Session, TreeNode } from "../api/types";
import { SbatchNotes } from "../jobs/SbatchNotes";
import { LEVEL_WORDS } from "../jobs/words";
import { teamsWhereIMay } from "../session/access";
import { useSession } from "../session/useSession";
import { CliLine } from "../ui/CliLine";
import { Empty, Lines, QueryView } from "../ui/states";
import { toastDone } from "../ui/toast";
import { DEVICE_WORDS, formatGpus, formatMultiplier } from "../ui/units";
import { usePageTitle } from "../ui/usePageTitle";
import {
  draftOf,
  emptyDraft,
  JOB_TYPES,
  LEVELS,
  MAX_FEATURES,
  MAX_OTHER_POOLS,
  newIdempotencyKey,
  parseArray,
  NOTICE_SIGNALS,
  placeRefusals,
  readDraft,
  submitCommand,
  type Draft,
  type DraftErrors,
} from "./draft";
import { imageAdvice } from "./images";
import { PlanPanel } from "./PlanPanel";
import { SbatchDrop } from "./SbatchDrop";
import "./submit.css";

const PLAN_PAUSE_MS = 500;


const PLAN_TRIES_MORE = 2;
const PLAN_AGAIN_MS = 2_000;

function planQuery(request: JobRequest | null) {
  return queryOptions({
    // Under "jobs", so that a live hint asks again.
    queryKey: ["jobs", "plan", request],
    enabled: request !== null,
    // A plan costs the server a cycle, of which it makes few at once.
    retry: (count, error) => count < PLAN_TRIES_MORE && error instanceof ApiError && error.status === 429,
    retryDelay: PLAN_AGAIN_MS,
    queryFn: async ({ signal }): Promise<JobPlan> => {
      if (request === null) throw new Error("nothing to plan yet");
      const answer = await unwrap(
        client.POST("/api/v1/jobs", { params: { query: { dry_run: true } }, body: request, signal }),
      );
      return answer as JobPlan;
    },
  });
}

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

export function SubmitPage() {
  usePageTitle("Submit a job");
  const session = useSession();
  const { from } = useSearch({ from: "/shell/submit" });
  const tree = useQuery(treeQuery);
  const source = useQuery({ ...jobQuery(from ?? ""), enabled: from !== undefined });
  return (
    <>
      <h1>Submit a job</h1>
      <p className="sub">Any cluster that has what it asks for may run it.</p>
      <QueryView query={tree} loading={<Waiting />}>
        {(nodes) =>
          from !== undefined ? (
            <QueryView query={source} loading={<Waiting />}>
              {(job) => <SubmitForm key={from} session={session} nodes={nodes} initial={draftOf(job)} />}
            </QueryView>
          ) : (
            <SubmitForm key="new" session={session} nodes={nodes} initial={emptyDraft()} />
          )
        }
      </QueryView>
    </>
  );
}

function Waiting() {
  return (
    <div className="card">
      <Lines count={8} />
    </div>
  );
}

function SubmitForm({
  session,
  nodes,
  initial,
}: {
  session: Session;
  nodes: readonly TreeNode[];
  initial: Draft;
}) {
  const { door = "form", scope } = useSearch({ from: "/shell/submit" });
  const navigate = useNavigate();
  const queryClient = useQueryClient();
  const teams = teamsWhereIMay(session, "submit_jobs", nodes).map((node) => node.path);
  const [stored, setDraft] = useState<Draft>(() => ({
    ...initial,
    team: initial.team ?? teams.find((team) => team === scope) ?? (teams.length === 1 ? (teams[0] ?? null) : null),
  }));
  const draft = { ...stored, door };
  const set = (change: Partial<Draft>) => setDraft((before) => ({ ...before, ...change }));

  const { request, errors: typedErrors } = readDraft(draft);
  const requestText = request === null ? "" : JSON.stringify(request);
  const [settledText] = useDebouncedValue(requestText, PLAN_PAUSE_MS);
  const settled = useMemo(
    () => (settledText === "" ? null : (JSON.parse(settledText) as JobRequest)),
    [settledText],
  );
  const plan = useQuery({ ...planQuery(settled), placeholderData: keepPreviousData });

  const key = useRef({ of: "", value: "" });
  const submit = useMutation({
    mutationFn: async (body: JobRequest) => {
      const text = JSON.stringify(body);
      if (key.current.of !== text) key.current = { of: text, value: newIdempotencyKey() };
      const answer = await unwrap(
        client.POST("/api/v1/jobs", {
          params: { header: { "Idempotency-Key": key.current.value } },
          body,
        }),
      );
      return answer as Job;
    },
    onSuccess: (job) => {
      const more = (job.array?.size ?? 1) - 1;
      toastDone(more > 0 ? `${job.name} and ${more.toLocaleString("en")} more tasks are queued` : `${job.name} is queued`);
      void queryClient.invalidateQueries({ queryKey: ["jobs"] });
      void navigate({ to: "/jobs/$jobId", params: { jobId: job.id } });
    },
  });

  const [hasTried, setTried] = useState(false);
  const refusal = submit.error ?? (settledText === requestText ? plan.error : null);
  const placed = refusal instanceof ApiError ? placeRefusals(refusal.fieldErrors, draft) : { errors: {}, others: [] };
  // A field is complained about once the person has tried to submit, or typed something wrong.
  const errors: DraftErrors = { ...placed.errors, ...(hasTried ? typedErrors : onlyTyped(typedErrors, draft)) };

  if (teams.length === 0) {
    return (
      <div className="card">
        <Empty cli="tidegate whoami">You may not submit jobs in any team. Ask a team lead for the researcher role.</Empty>
      </div>
    );
  }
  // What is said of the whole request stands in the plan.
  const notes = (plan.data?.notes ?? []).filter((note) => note.line > 0);
  return (
    <form
      className="two"
      noValidate
      onSubmit={(event) => {
        event.preventDefault();
        setTried(true);
        if (request) submit.mutate(request);
      }}
    >
      <div className="rows">
        <div className="card stack">
          <SegmentedControl
            aria-label="How to describe the job"
            data={[
              { value: "form", label: "Form" },
              { value: "sbatch", label: "sbatch script" },
            ]}
            value={door}
            onChange={(next) =>
              void navigate({
                to: "/submit",
                search: (before) => ({ ...before, door: next === "sbatch" ? "sbatch" : undefined }),
                replace: true,
              })
            }
          />
          <Select
            label="Team"
            placeholder="choose"
            searchable
            required
            allowDeselect={false}
            data={teams}
            value={draft.team}
            error={errors.team}
            onChange={(team) => set({ team, priorityClass: null })}
          />
          {door === "form" ? (
            <FormFields draft={draft} set={set} errors={errors} nodes={nodes} />
          ) : (
            <SbatchDrop value={draft.sbatch} error={errors.sbatch} onChange={(sbatch) => set({ sbatch })} />
          )}
        </div>
        {door === "sbatch" && notes.length > 0 && (
          <section className="card" aria-label="What was read from the script">
            <h2>What was read from the script</h2>
            <SbatchNotes notes={notes} />
          </section>
        )}
        {submit.error && (
          <div className="card mark bad" role="alert">
            <h2>It was not submitted</h2>
            <p>{submit.error.message}</p>
            {placed.others.map((detail) => (
              <p key={detail}>{detail}</p>
            ))}
          </div>
        )}
        <div className="inline">
          <Button type="submit" loading={submit.isPending}>
            Submit
          </Button>
          <Button variant="default" component={Link} to="/jobs">
            Back to jobs
          </Button>
        </div>
        <CliLine command={submitCommand(draft)} />
      </div>
      <PlanPanel plan={plan} hasRequest={settled !== null} />
    </form>
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

/** Complaints about fields that hold something; empty ones wait until the person submits. */
function onlyTyped(errors: DraftErrors, draft: Draft): DraftErrors {
  return Object.fromEntries(
    Object.entries(errors).filter(([field]) => {
      const value = draft[field as keyof Draft];
      return typeof value === "string" && value.trim() !== "";
    }),
  );
}

function FormFields({
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
  const pool = pools.data?.find(({ name }, _, all) => name === (draft.pool ?? (all.length === 1 ? name : null)));
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
          data={(pools.data ?? []).map(({ name, capacity_mgpu, device }) => ({
            value: name,
            label: `${name} · ${formatGpus(capacity_mgpu)} ${DEVICE_WORDS[device]}`,
          }))}
          value={draft.pool}
          error={errors.pool}
          onChange={(pool) => set({ pool, shape: shapeFor(pools.data?.find(({ name }) => name === pool), draft) })}
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
              ...(isOfCores || pools.data?.some(({ device }) => device === "cpu")
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
        description="Such as 90m, 72h, 3d or 1-12:00:00. A limit lets smaller gaps be used."
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
              data={(clusters.data ?? []).map(({ name }) => name)}
              value={draft.cluster}
              error={errors.cluster}
              onChange={(cluster) => set({ cluster })}
            />
          </div>
          {(draft.otherPools.length > 0 || (pools.data ?? []).length > 1) && (
            <MultiSelect
              label="Else in"
              description="It starts in one pool. The order is yours."
              placeholder={draft.otherPools.length === 0 ? "no other pool" : undefined}
              maxValues={MAX_OTHER_POOLS}
              data={(pools.data ?? []).map(({ name }) => name).filter((name) => name !== draft.pool)}
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
              label="Keep its nodes together"
              description="All of them in one of these."
              placeholder="anywhere"
              clearable
              clearButtonProps={{ "aria-label": "Nodes anywhere" }}
              data={LEVELS.map((level) => ({ value: level, label: LEVEL_WORDS[level] }))}
              value={draft.together}
              error={errors.together}
              onChange={(together) => set({ together: LEVELS.find((each) => each === together) ?? null })}
            />
            <Checkbox
              label="Wait until they can be"
              description="Otherwise it starts as close together as there is room."
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
              description="Given to the next attempt after a preemption."
              value={draft.checkpointPath}
              error={errors.checkpointPath}
              onChange={(event) => set({ checkpointPath: event.currentTarget.value })}
            />
            <Select
              label="Notice signal"
              description="Sent when the GPUs are asked back."
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
            description="Ids of jobs that must succeed first, one a line. Before an id, “ended” or “failed” waits for that instead, and “array” says that it is the id of an array."
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
            label="Queue it again after a preemption or a lost node"
            checked={draft.isRequeueable}
            onChange={(event) => set({ isRequeueable: event.currentTarget.checked })}
          />
          <Checkbox
            label="It may be preempted even inside the guarantee"
            checked={draft.isPreemptible}
            onChange={(event) => set({ isPreemptible: event.currentTarget.checked })}
          />
          <TextInput
            label="Begin at"
            description="It waits until then; in your time zone."
            type="datetime-local"
            w={240}
            value={draft.beginAt}
            error={errors.beginAt}
            onChange={(event) => set({ beginAt: event.currentTarget.value })}
          />
          <Checkbox
            label="Hold it: do not start before I release it"
            checked={draft.isHeld}
            onChange={(event) => set({ isHeld: event.currentTarget.checked })}
          />
        </div>
      )}
    </>
  );
}
