import { Button } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { client, unwrap } from "../api/client";
import type { JobActionResults, JobFilter } from "../api/types";
import { newIdempotencyKey } from "../submit/draft";
import { Confirm } from "../ui/Confirm";
import { QueryView } from "../ui/states";
import { toastDone, toastError, toastToDo } from "../ui/toast";
import { formatCount } from "../ui/units";

const ACTIONS = {
  hold: { label: "Hold", done: "held" },
  release: { label: "Release", done: "released" },
  requeue: { label: "Requeue", done: "requeued" },
  cancel: { label: "Cancel", done: "cancelled" },
} as const;
type Action = keyof typeof ACTIONS;
/** An action with the jobs that were chosen when its dialog opened: an open dialog keeps them. */
interface Asked {
  action: Action;
  chosen: readonly string[];
}
const ORDER: readonly Action[] = ["hold", "release", "requeue", "cancel"];
/** Refusals that the message after an action quotes. */
const QUOTED_MAX = 3;

/** Buttons that change the chosen jobs, or all jobs of the list; the preview comes first. */
export function BulkActions({
  chosen,
  filter,
  onDone,
}: {
  /** Ids of the chosen rows; empty: all that the filter matches. */
  chosen: readonly string[];
  filter: Omit<JobFilter, "sort">;
  onDone: () => void;
}) {
  const [asked, setAsked] = useState<Asked | null>(null);
  return (
    <div className="inline bulk" role="group" aria-label="Change several jobs">
      <span className="small dim">
        {chosen.length > 0 ? `${jobCount(chosen.length)} chosen` : "All jobs that match"}
      </span>
      {ORDER.map((action) => (
        <Button
          key={action}
          size="xs"
          variant="default"
          c={action === "cancel" ? "var(--bad)" : undefined}
          onClick={() => setAsked({ action, chosen })}
        >
          {ACTIONS[action].label}…
        </Button>
      ))}
      {chosen.length > 0 && (
        <Button size="xs" variant="default" onClick={onDone}>
          Clear choice
        </Button>
      )}
      {asked !== null && (
        <Preview
          action={asked.action}
          chosen={asked.chosen}
          filter={filter}
          onClose={() => setAsked(null)}
          onDone={() => {
            setAsked(null);
            onDone();
          }}
        />
      )}
    </div>
  );
}

function Preview({
  action,
  chosen,
  filter,
  onClose,
  onDone,
}: {
  action: Action;
  chosen: readonly string[];
  filter: Omit<JobFilter, "sort">;
  onClose: () => void;
  onDone: () => void;
}) {
  const queryClient = useQueryClient();
  const [key] = useState(newIdempotencyKey);
  const preview = useQuery({
    queryKey: ["jobs", "action-preview", action, chosen, filter],
    staleTime: Infinity,
    gcTime: 0,
    queryFn: ({ signal }) =>
      unwrap(
        client.POST("/api/v1/job-actions/preview", {
          params: { query: chosen.length > 0 ? {} : filter },
          body: { action, jobs: chosen.length > 0 ? [...chosen] : null },
          signal,
        }),
      ),
  });
  const jobs = preview.data?.jobs ?? [];
  const act = useMutation({
    mutationFn: () =>
      unwrap(
        client.POST("/api/v1/job-actions", {
          params: { header: { "Idempotency-Key": key } },
          body: { action, jobs },
        }),
      ),
    onSuccess: (results) => {
      void queryClient.invalidateQueries({ queryKey: ["jobs"] });
      sayResults(action, results);
      onDone();
    },
    onError: (error) => {
      toastError(error);
      onClose();
    },
  });
  const { label, done } = ACTIONS[action];
  return (
    <Confirm
      isOpen
      title={`${label} ${chosen.length > 0 ? "the chosen jobs" : "all jobs that match"}?`}
      isBusy={act.isPending || preview.isPending}
      isDisabled={jobs.length === 0}
      isDangerous={action === "cancel"}
      confirmLabel={jobs.length === 0 ? label : `${label} ${jobCount(jobs.length)}`}
      onConfirm={() => act.mutate()}
      onClose={onClose}
    >
      <QueryView query={preview}>
        {(plan) => (
          <div className="stack">
            <p>
              {plan.jobs.length === 0
                ? `No job can be ${done}.`
                : `${jobCount(plan.jobs.length)} would be ${done}: ${countWords(plan.states)}.`}
            </p>
            {plan.jobs.length > 0 && (
              <p>
                {jobCount(plan.own)} of your own.
                {plan.own < plan.jobs.length && ` Users: ${countWords(plan.users)}.`}
              </p>
            )}
            {plan.forbidden > 0 && (
              <p className="dim">{jobCount(plan.forbidden)} may be changed by others only.</p>
            )}
            {Object.keys(plan.unsuited).length > 0 && (
              <p className="dim">Not changed in their state: {countWords(plan.unsuited)}.</p>
            )}
            {action === "cancel" && plan.jobs.length > 0 && <p>This cannot be undone.</p>}
          </div>
        )}
      </QueryView>
    </Confirm>
  );
}

function jobCount(count: number): string {
  return count === 1 ? "1 job" : `${formatCount(count)} jobs`;
}

/** "3 queued, 1 timed out", the largest first. */
function countWords(counts: Readonly<Record<string, number>>): string {
  return Object.entries(counts)
    .sort(([a, one], [b, other]) => other - one || a.localeCompare(b))
    .map(([name, count]) => `${formatCount(count)} ${name.replaceAll("_", " ")}`)
    .join(", ");
}

function sayResults(action: Action, results: JobActionResults): void {
  const changed = `${jobCount(results.changed)} ${ACTIONS[action].done}`;
  if (results.refused === 0) {
    toastDone(changed);
    return;
  }
  const details = results.items.flatMap(({ problem }) => (problem === null ? [] : [problem.detail]));
  const quoted = [...new Set(details)].slice(0, QUOTED_MAX).join(" ");
  toastToDo(`${changed}, ${results.refused} refused`, quoted);
}
