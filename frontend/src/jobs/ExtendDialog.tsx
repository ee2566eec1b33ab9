import { Button, Modal, TextInput } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { client, unwrap } from "../api/client";
import { jobQuery } from "../api/queries";
import type { ExtensionPlan, JobDetail } from "../api/types";
import { leftAfter } from "../budgets/amounts";
import { costWords } from "../prices/costWords";
import { CliLine } from "../ui/CliLine";
import { Fact, Facts } from "../ui/Facts";
import { Time } from "../ui/Time";
import { toastDone, toastError } from "../ui/toast";
import { formatCount, formatDuration, readTimeLimit } from "../ui/units";
import { useReturnFocus } from "../ui/useReturnFocus";

/** Asks for a longer time limit, shows what that does, and only then does it. */
export function ExtendDialog({ job, onClose }: { job: JobDetail; onClose: () => void }) {
  useReturnFocus();
  const queryClient = useQueryClient();
  const [text, setText] = useState("+1h");
  const read = readExtension(text);
  const plan = useMutation({
    mutationFn: (body: Extension) =>
      unwrap(client.POST("/api/v1/jobs/{job_id}/extension-plan", { params: { path: { job_id: job.id } }, body })),
  });
  const extend = useMutation({
    mutationFn: (planned: ExtensionPlan) =>
      unwrap(
        client.POST("/api/v1/jobs/{job_id}/extend", {
          params: { path: { job_id: job.id } },
          body: { time_limit_s: planned.time_limit_s },
        }),
      ),
    onSuccess: (changed) => {
      queryClient.setQueryData(jobQuery(job.id).queryKey, (before) => before && { ...before, ...changed });
      void queryClient.invalidateQueries({ queryKey: ["jobs"] });
      toastDone(`${job.name} has a time limit of ${formatDuration(changed.time_limit_s ?? 0)}`);
      onClose();
    },
    onError: toastError,
  });
  const planned = plan.data;
  return (
    <Modal opened onClose={onClose} size="lg" title={`Extend ${job.name}?`} closeButtonProps={{ "aria-label": "Close" }}>
      <form
        className="stack"
        onSubmit={(event) => {
          event.preventDefault();
          if ("body" in read) plan.mutate(read.body);
        }}
      >
        <TextInput
          label="Longer"
          description={`+2h for two hours more, or the whole limit: 8h. It is ${formatDuration(job.time_limit_s ?? 0)} now.`}
          value={text}
          onChange={(event) => {
            setText(event.currentTarget.value);
            plan.reset();
          }}
          error={"error" in read ? read.error : undefined}
          data-autofocus
        />
        <div aria-live="polite" className="stack">
          {planned && <Effect plan={planned} />}
          {plan.error && <p className="bad">{plan.error.message}</p>}
        </div>
        <CliLine command={`tidegate extend ${job.id} ${text.trim()}`} />
        <div className="inline end">
          <Button variant="default" onClick={onClose}>
            Back
          </Button>
          <Button type="submit" variant="default" loading={plan.isPending} disabled={"error" in read}>
            Show the plan
          </Button>
          <Button
            loading={extend.isPending}
            disabled={planned === undefined || planned.refusal !== ""}
            onClick={() => planned && extend.mutate(planned)}
          >
            Extend it
          </Button>
        </div>
      </form>
    </Modal>
  );
}

function Effect({ plan }: { plan: ExtensionPlan }) {
  return (
    <>
      <Facts label="The plan" isLeft>
        <Fact name="Time limit">
          {formatDuration(plan.time_limit_s)} <span className="faint">was {formatDuration(plan.before_s)}</span>
        </Fact>
        {plan.ends_at && (
          <Fact name="Ends">
            <Time at={plan.ends_at} show="clock" />{" "}
            {plan.ends_before && (
              <span className="faint">
                was <Time at={plan.ends_before} show="clock" />
              </span>
            )}
          </Fact>
        )}
        {plan.notice_at && (
          <Fact name="Notice">
            <Time at={plan.notice_at} show="clock" />
          </Fact>
        )}
        {plan.cost_nano !== null && plan.currency !== null && (
          <Fact name="Costs at most">{costWords(plan.cost_nano, plan.unbilled_nano, plan.price_mode, plan.currency)}</Fact>
        )}
        {plan.budgets.map((budget) => (
          <Fact key={budget.id} name="Budget">
            <strong className="breaks">{budget.name}</strong>:{" "}
            <span className={budget.left_after < 0 ? "bad-text" : undefined}>{leftAfter(budget)} left after it</span>
          </Fact>
        ))}
        <Fact name="Delayed jobs">{formatCount(plan.delayed_jobs)}</Fact>
      </Facts>
      {plan.delays.length > 0 && (
        <ul className="small">
          {plan.delays.map((delay) => (
            <li key={delay.job}>
              {delay.name} of {delay.user} starts {delay.is_at_least && "at least "}
              {formatDuration(delay.later_s)} later
              {delay.after ? (
                <>
                  : <Time at={delay.after} show="clock" />
                </>
              ) : (
                <>
                  , not before <Time at={plan.until} show="clock" />
                </>
              )}
            </li>
          ))}
        </ul>
      )}
      {plan.notes.map((note) => (
        <p key={note}>{note}</p>
      ))}
      {plan.unseen && <p>{plan.unseen}</p>}
      {plan.refusal && <p className="bad">{plan.refusal}</p>}
    </>
  );
}

type Extension = { by_s: number } | { time_limit_s: number };

/** "+2h" is two hours more, "8h" the whole limit; else the sentence that says what to write. */
export function readExtension(text: string): { body: Extension } | { error: string } {
  const words = text.trim();
  const isMore = words.startsWith("+");
  const read = readTimeLimit(isMore ? words.slice(1) : words);
  if ("error" in read) return read;
  return { body: isMore ? { by_s: read.seconds } : { time_limit_s: read.seconds } };
}
