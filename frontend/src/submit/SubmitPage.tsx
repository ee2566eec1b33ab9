import { Button, SegmentedControl, Select } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useDebouncedValue } from "@mantine/hooks";
import { keepPreviousData, queryOptions, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useMemo, useRef, useState } from "react";

import { ApiError, client, unwrap } from "../api/client";
import { jobQuery, treeQuery } from "../api/queries";
import type { CreatedSchedule, Job, JobDetail, JobRequest, JobTemplate, SchedulePlan, Session, TreeNode } from "../api/types";
import { SbatchNotes } from "../jobs/SbatchNotes";
import { stateWord } from "../jobs/words";
import { teamsWhereIMay } from "../session/access";
import { teamTemplatesQuery } from "../templates/queries";
import { useSession } from "../session/useSession";
import { Card } from "../ui/Card";
import { CliLine } from "../ui/CliLine";
import { Page } from "../ui/Page";
import { Empty, Lines, QueryView } from "../ui/states";
import { toastDone } from "../ui/toast";
import {
  draftOf,
  emptyDraft,
  isCronJob,
  isManifest,
  newIdempotencyKey,
  placeRefusals,
  readDraft,
  submitCommand,
  type Draft,
  type DraftErrors,
  type DraftForm,
} from "./draft";
import { ArgumentsInput, FormFields } from "./FormFields";
import { fromTemplate, lockedFields, withMembers, withoutLocked } from "./fromRequest";
import { insteadOf } from "./instead";
import { ManifestFields } from "./PlaceFields";
import { PlanPanel, type SubmissionPlan } from "./PlanPanel";
import { SbatchDrop } from "./SbatchDrop";
import { SUBMIT_DOORS } from "./search";
import "./submit.css";
import { readYaml, yamlOf } from "./yamlRequest";

const YAML_WORDS = {
  label: "Request in YAML",
  description: "Members of the REST API, one a line. A team in the text wins over the team above.",
  placeholder: "name: train\ngpus: 8\ntime_limit: 12h\nscript: |\n  #!/bin/bash\n  python train.py",
};

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
    queryFn: async ({ signal }): Promise<SubmissionPlan> => {
      if (request === null) throw new Error("nothing to plan yet");
      if (isCronJob(request.manifest)) {
        const planned = (await unwrap(
          client.POST("/api/v1/schedules", { params: { query: { dry_run: true } }, body: { request }, signal }),
        )) as SchedulePlan;
        return { ...planned.plan, schedule: planned };
      }
      const answer = await unwrap(
        client.POST("/api/v1/jobs", { params: { query: { dry_run: true } }, body: request, signal }),
      );
      return answer as SubmissionPlan;
    },
  });
}

export function SubmitPage() {
  const session = useSession();
  const { from, instead } = useSearch({ from: "/shell/submit" });
  const tree = useQuery(treeQuery);
  const source = useQuery({ ...jobQuery(from ?? ""), enabled: from !== undefined });
  return (
    <Page title="Submit a job" lead="The job runs on any cluster that meets its requirements.">
      <QueryView query={tree} loading={<Waiting />}>
        {(nodes) =>
          from !== undefined ? (
            <QueryView query={source} loading={<Waiting />}>
              {(job) => (
                <>
                  {instead !== undefined && <InPlaceOf job={job} />}
                  <SubmitForm
                    key={`${from} ${instead ?? ""}`}
                    session={session}
                    nodes={nodes}
                    initial={instead === undefined ? draftOf(job) : insteadOf(draftOf(job), instead)}
                  />
                </>
              )}
            </QueryView>
          ) : (
            <SubmitForm key="new" session={session} nodes={nodes} initial={emptyDraft()} />
          )
        }
      </QueryView>
    </Page>
  );
}

/** That the job which this one is to stand in for is still there, or is past it. */
function InPlaceOf({ job }: { job: JobDetail }) {
  return (
    <Card role="note">
      This is to run in place of{" "}
      <Link to="/jobs/$jobId" params={{ jobId: job.id }}>
        {job.name}
      </Link>
      {job.state === "queued" || job.state === "held"
        ? ", which stays queued: cancel that one, or both run."
        : `, which waits no longer (${stateWord(job.state)}).`}
    </Card>
  );
}

function Waiting() {
  return (
    <Card>
      <Lines count={8} />
    </Card>
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
  const { door = initial.door, scope, template: templateId } = useSearch({ from: "/shell/submit" });
  const navigate = useNavigate();
  const queryClient = useQueryClient();
  const teams = teamsWhereIMay(session, "submit_jobs", nodes).map((node) => node.path);
  const form: DraftForm = useForm<Draft>({
    initialValues: {
      ...initial,
      team: initial.team ?? teams.find((team) => team === scope) ?? (teams.length === 1 ? (teams[0] ?? null) : null),
    },
    // What was typed wrong and what the plan refuses change with every key, so they are worked out when shown.
    enhanceGetInputProps: ({ field }) => ({
      error: errors[field as keyof DraftErrors],
      ...(locked.has(field as keyof Draft) ? { disabled: true } : {}),
    }),
  });
  const templates = useQuery(teamTemplatesQuery(form.values.team)).data ?? [];
  const template = templates.find((each) => each.id === templateId) ?? null;
  // The fields of a template that was chosen by the address, once it is known.
  const [filledBy, setFilledBy] = useState<string | null>(null);
  if (template !== null && filledBy !== template.id) {
    setFilledBy(template.id);
    form.setValues(withMembers(form.values, template.request));
  }
  const locked = lockedFields(template);
  const draft = { ...form.values, door };

  const written = door === "yaml" ? readYaml(draft.yaml, draft.team) : null;
  const { request: whole, errors: typedErrors } =
    written === null
      ? readDraft(draft)
      : { request: written.request, errors: written.error === undefined ? {} : { yaml: written.error } };
  const request = whole === null || template === null ? whole : fromTemplate(whole, template);
  const requestText = request === null ? "" : JSON.stringify(request);
  const [settledText] = useDebouncedValue(requestText, PLAN_PAUSE_MS);
  const settled = useMemo(
    () => (settledText === "" ? null : (JSON.parse(settledText) as JobRequest)),
    [settledText],
  );
  const plan = useQuery({ ...planQuery(settled), placeholderData: keepPreviousData });

  const key = useRef({ of: "", value: "" });
  const submit = useMutation({
    mutationFn: async (body: JobRequest): Promise<{ schedule: CreatedSchedule } | { job: Job }> => {
      const text = JSON.stringify(body);
      if (key.current.of !== text) key.current = { of: text, value: newIdempotencyKey() };
      const params = { header: { "Idempotency-Key": key.current.value } };
      if (isCronJob(body.manifest)) {
        const schedule = await unwrap(client.POST("/api/v1/schedules", { params, body: { request: body } }));
        return { schedule: schedule as CreatedSchedule };
      }
      return { job: (await unwrap(client.POST("/api/v1/jobs", { params, body }))) as Job };
    },
    onSuccess: (made) => {
      if ("schedule" in made) {
        toastDone(`The schedule ${made.schedule.name} is created`);
        void queryClient.invalidateQueries({ queryKey: ["jobs"] });
        void navigate({ to: "/schedules" });
        return;
      }
      const { job } = made;
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
      <Card>
        <Empty cli="tidegate whoami">You may not submit jobs in any team. Ask a team lead for the researcher role.</Empty>
      </Card>
    );
  }
  // What is said of the whole request stands in the plan.
  const notes = (plan.data?.notes ?? []).filter((note) => note.line > 0);
  return (
    <form
      className="two"
      noValidate
      onSubmit={form.onSubmit(() => {
        setTried(true);
        if (request) submit.mutate(request);
      })}
    >
      <div className="rows">
        <Card className="stack">
          <SegmentedControl
            aria-label="How to describe the job"
            data={[
              { value: "form", label: "Form" },
              { value: "sbatch", label: "Script or manifest" },
              { value: "yaml", label: "YAML" },
            ]}
            value={door}
            onChange={(next) => {
              // What is filled in so far goes on as text.
              if (next === "yaml" && draft.yaml.trim() === "" && request !== null) {
                form.setFieldValue("yaml", yamlOf(request));
              }
              void navigate({
                to: "/submit",
                search: (before) => ({ ...before, door: SUBMIT_DOORS.find((each) => each === next) }),
                replace: true,
              });
            }}
          />
          <Select
            label="Team"
            placeholder="choose"
            searchable
            required={door !== "yaml"}
            allowDeselect={false}
            data={teams}
            {...form.getInputProps("team")}
            onChange={(team: string | null) => form.setValues({ team, priorityClass: null })}
          />
          {(templates.length > 0 || template !== null) && (
            <Select
              label="Template"
              placeholder="none"
              clearable
              data={templates.map(({ id, name }) => ({ value: id, label: name }))}
              description={template === null ? undefined : templateWords(template)}
              value={template?.id ?? null}
              onChange={(next) => {
                setFilledBy(null);
                if (next === null) form.setValues({ ...emptyDraft(), team: draft.team });
                const chosen = templates.find((each) => each.id === next);
                const isText = chosen?.request.sbatch !== undefined || chosen?.request.manifest !== undefined;
                void navigate({
                  to: "/submit",
                  search: (before) => ({
                    ...before,
                    template: next ?? undefined,
                    door: isText ? "sbatch" : undefined,
                  }),
                  replace: true,
                });
              }}
            />
          )}
          {door === "form" ? (
            <FormFields form={form} nodes={nodes} />
          ) : door === "yaml" ? (
            <SbatchDrop
              words={YAML_WORDS}
              value={draft.yaml}
              error={errors.yaml}
              onChange={(yaml) => form.setFieldValue("yaml", yaml)}
            />
          ) : (
            <>
              <SbatchDrop
                value={draft.sbatch}
                error={errors.sbatch}
                onChange={(sbatch, file) =>
                  form.setValues({ sbatch, scriptFile: file ?? (sbatch === "" ? "" : draft.scriptFile) })
                }
              />
              {isManifest(draft.sbatch) ? (
                <ManifestFields form={form} nodes={nodes} />
              ) : (
                <ArgumentsInput form={form} />
              )}
            </>
          )}
        </Card>
        {(door === "sbatch" ? notes.length > 0 : notes.some(({ line }) => line > 0)) && (
          <Card label="What was read from the script">
            <h2>What was read from the script</h2>
            <SbatchNotes notes={notes} />
          </Card>
        )}
        {submit.error && (
          <Card tone="bad" role="alert">
            <h2>The job was not submitted</h2>
            <p>{submit.error.message}</p>
            {placed.others.map((detail) => (
              <p key={detail}>{detail}</p>
            ))}
          </Card>
        )}
        <div className="inline">
          <Button type="submit" loading={submit.isPending}>
            Submit
          </Button>
          <Button variant="default" component={Link} to="/jobs">
            Back to jobs
          </Button>
        </div>
        <CliLine command={submitCommand(withoutLocked(draft, locked), request?.team, template?.name)} />
      </div>
      <PlanPanel plan={plan} hasRequest={settled !== null} />
    </form>
  );
}

/** What a template is for, and what it locks. */
function templateWords({ description, locked }: JobTemplate): string {
  const words = locked.length === 0 ? "All members may be changed." : `Locked: ${locked.join(", ")}.`;
  return description === "" ? words : `${description} ${words}`;
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
