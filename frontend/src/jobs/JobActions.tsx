import { Button } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";

import { client, unwrap } from "../api/client";
import { jobQuery } from "../api/queries";
import type { JobDetail } from "../api/types";
import { may } from "../session/access";
import { useSession } from "../session/useSession";
import { Confirm } from "../ui/Confirm";
import { toastDone, toastError } from "../ui/toast";
import { formatGpuCount } from "../ui/units";
import { ExtendDialog } from "./ExtendDialog";
import { isEnded } from "./words";

const ACTIONS = {
  hold: { label: "Hold", done: "is held", path: "/api/v1/jobs/{job_id}/hold" },
  release: { label: "Release", done: "is queued again", path: "/api/v1/jobs/{job_id}/release" },
  requeue: { label: "Requeue", done: "ends and is queued again", path: "/api/v1/jobs/{job_id}/requeue" },
  cancel: { label: "Cancel", done: "is being cancelled", path: "/api/v1/jobs/{job_id}/cancel" },
} as const;
type Action = keyof typeof ACTIONS;

/** What the server says I may do with this job; each is asked about before it is done. */
export function JobActions({ job }: { job: JobDetail }) {
  const session = useSession();
  const queryClient = useQueryClient();
  const [asked, setAsked] = useState<Action | null>(null);
  const act = useMutation({
    mutationFn: (action: Action) =>
      unwrap(client.POST(ACTIONS[action].path, { params: { path: { job_id: job.id } } })),
    onSuccess: (changed, action) => {
      queryClient.setQueryData(jobQuery(job.id).queryKey, (before) => before && { ...before, ...changed });
      void queryClient.invalidateQueries({ queryKey: ["jobs"] });
      const isOver = action === "cancel" && isEnded(changed.state);
      toastDone(`${job.name} ${isOver ? "is cancelled" : ACTIONS[action].done}`);
      setAsked(null);
    },
    onError: (error) => {
      toastError(error);
      setAsked(null);
    },
  });
  const [isExtending, setExtending] = useState(false);
  const offered = (["hold", "release", "requeue", "cancel"] as const).filter((action) => job.can.includes(action));
  const holdsGpus = job.current_attempt !== null && job.current_attempt.state !== "ended";
  return (
    <div className="inline">
      {offered
        .filter((action) => action !== "cancel")
        .map((action) => (
          <Button key={action} variant="default" onClick={() => setAsked(action)}>
            {ACTIONS[action].label}
          </Button>
        ))}
      {job.can.includes("extend") && (
        <Button variant="default" onClick={() => setExtending(true)}>
          Extend
        </Button>
      )}
      {isExtending && <ExtendDialog job={job} onClose={() => setExtending(false)} />}
      {may(session, "submit_jobs") && job.origin === "portal" && (
        <Link to="/submit" search={{ from: job.id }} className="button-like">
          Clone
        </Link>
      )}
      {job.script !== null && job.origin === "portal" && (
        <a href={`/api/v1/jobs/${job.id}/request?format=yaml`} download className="button-like">
          YAML
        </a>
      )}
      {offered.includes("cancel") && (
        <Button variant="default" c="var(--bad)" onClick={() => setAsked("cancel")}>
          Cancel
        </Button>
      )}
      <Confirm
        isOpen={asked !== null}
        title={asked === null ? "" : `${ACTIONS[asked].label} ${job.name}?`}
        isBusy={act.isPending}
        isDangerous={asked === "cancel"}
        confirmLabel={asked === null ? "" : `${ACTIONS[asked].label} it`}
        onConfirm={() => asked && act.mutate(asked)}
        onClose={() => setAsked(null)}
      >
        {asked === "cancel" &&
          (holdsGpus
            ? `Its processes are stopped and ${formatGpuCount(job.mgpu, job.device)} come free. This cannot be undone.`
            : "It leaves the queue. This cannot be undone; a clone starts at the end of the queue.")}
        {asked === "requeue" &&
          "It gets its notice signal and its grace period to save its work. Then it is queued again at its old place."}
        {asked === "hold" && "It keeps its place and does not start until it is released."}
        {asked === "release" && "It may start with the next decision."}
      </Confirm>
    </div>
  );
}
