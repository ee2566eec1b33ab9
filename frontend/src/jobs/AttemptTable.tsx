import { Button } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import { useState } from "react";

import { DisputeDialog } from "../adjustments/DisputeDialog";
import type { Attempt, AttemptCosts, Job } from "../api/types";
import { may } from "../session/access";
import { useSession } from "../session/useSession";
import { DataTable } from "../ui/DataTable";
import { Time } from "../ui/Time";
import { deviceTime, formatDuration, formatGpus } from "../ui/units";
import { Beneficiary } from "./Beneficiary";
import { costText, hoursText } from "./attemptCosts";
import { attemptWord } from "./words";
import "./attempts.css";

/** A negative code is the signal that killed the rank. */
function exitWord(code: number): string {
  return code < 0 ? `signal ${-code}` : String(code);
}

/** "0", "signal 9 on all 62 ranks", or those that differ: "1 on rank 3". */
export function exitCodeWords(codes: Readonly<Record<string, number>>): string {
  const entries = Object.entries(codes);
  if (entries.length === 0) return "–";
  const bad = entries.filter(([, code]) => code !== 0);
  const [first] = bad;
  if (first === undefined) return "0";
  if (entries.length === 1) return exitWord(first[1]);
  if (bad.length === entries.length && bad.every(([, code]) => code === first[1])) {
    return `${exitWord(first[1])} on all ${entries.length} ranks`;
  }
  const shown = bad.slice(0, 3).map(([rank, code]) => `${exitWord(code)} on rank ${rank}`);
  return bad.length > 3 ? `${shown.join(", ")} and ${bad.length - 3} more` : shown.join(", ");
}

/** One row per execution, newest first, with the cluster's own id and word for its state. */
export function AttemptTable({
  attempts,
  job,
  costs,
}: {
  attempts: readonly Attempt[];
  job: Pick<Job, "state" | "attempt" | "ended_at" | "device" | "team" | "user">;
  costs: AttemptCosts | undefined;
}) {
  const session = useSession();
  const mayDispute = job.user === session.user.username || may(session, "manage_jobs", job.team);
  const [disputed, setDisputed] = useState<Attempt | null>(null);
  const hasCosts = costs?.currency != null;
  const rows = [...attempts].sort((a, b) => b.number - a.number);
  return (
    <div className="scroll-x">
      <DataTable
        label="Attempts"
        className="attempts"
        rows={rows}
        rowKey={(attempt) => attempt.id}
        columns={[
          {
            header: "No.",
            isRight: true,
            cell: (attempt) => (
              <Link to="." search={(before) => ({ ...before, tab: "log", attempt: attempt.number, rank: 0 })}>
                {attempt.number}
              </Link>
            ),
          },
          {
            header: "Outcome",
            cell: (attempt) => (
              <>
                {attemptWord(attempt, job)}
                {attempt.made_room_for && (
                  <>
                    {" for "}
                    <Beneficiary job={attempt.made_room_for} device={job.device} />
                  </>
                )}
                {attempt.message && <div className="small faint">{attempt.message}</div>}
              </>
            ),
          },
          {
            header: "Cluster",
            className: "where",
            cell: (attempt) => (
              <>
                {attempt.cluster}
                <div className="small faint">
                  {[attempt.native_id, attempt.native_state].filter(Boolean).join(" · ")}
                </div>
              </>
            ),
          },
          {
            header: "Started",
            cell: (attempt) => (attempt.started_at ? <Time at={attempt.started_at} show="exact" /> : "–"),
          },
          {
            header: "Ran",
            isRight: true,
            only: "wide",
            cell: (attempt) =>
              attempt.started_at && attempt.ended_at
                ? formatDuration((new Date(attempt.ended_at).getTime() - new Date(attempt.started_at).getTime()) / 1000)
                : "–",
          },
          {
            header: "Ran as",
            only: "wide",
            cell: (attempt) =>
              attempt.borrowed_mgpu === 0
                ? `${formatGpus(attempt.guaranteed_mgpu)} guaranteed`
                : attempt.guaranteed_mgpu === 0
                  ? `${formatGpus(attempt.borrowed_mgpu)} borrowed`
                  : `${formatGpus(attempt.guaranteed_mgpu)} guaranteed, ${formatGpus(attempt.borrowed_mgpu)} borrowed`,
          },
          {
            header: "Exit",
            isRight: true,
            className: "exit",
            cell: (attempt) => exitCodeWords(attempt.exit_codes),
          },
          hasCosts && {
            header: deviceTime(job.device, "h"),
            isRight: true,
            only: "wide",
            cell: (attempt) => hoursText(attempt, costs),
          },
          hasCosts && {
            header: "Cost",
            isRight: true,
            cell: (attempt) => costText(attempt, costs),
          },
          mayDispute && {
            header: <span className="visually-hidden">Charge</span>,
            isRight: true,
            only: "wide",
            cell: (attempt) =>
              attempt.started_at &&
              attempt.ended_at && (
                <Button size="compact-sm" variant="default" onClick={() => setDisputed(attempt)}>
                  Dispute charge…
                </Button>
              ),
          },
        ]}
      />
      {disputed && <DisputeDialog attempt={disputed} onClose={() => setDisputed(null)} />}
    </div>
  );
}
