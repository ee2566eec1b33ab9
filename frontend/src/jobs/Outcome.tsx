import { useClipboard } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";

import { jobAttemptsQuery, logSummaryQuery } from "../api/queries";
import type { Attempt, JobDetail, LogSummary } from "../api/types";
import { Card } from "../ui/Card";
import { Time } from "../ui/Time";
import { capitalised, formatDuration } from "../ui/units";
import { exitCodeWords } from "./AttemptTable";
import { nodesOf, nodesText, ranS, spansOf } from "./attemptTimes";
import { attemptWord, hasFailed, isEnded, stateWord } from "./words";
import "./log.css";
import "./why.css";

const END_REASON_WORDS: Record<string, string> = {
  cost_cap_reached: "its charge reached its cost cap",
  time_limit: "its time limit was over",
  rejected_by_cluster: "its cluster rejected it",
  preempted: "preempted, and submitted without requeue",
  node_failed: "a node failed",
  lost: "its cluster lost it",
  stopped_on_cluster: "stopped on its cluster by another person",
  removed_on_cluster: "removed from its cluster",
};
/** What the sentence says already. */
const SAID_BY_STATE = new Set(["cancelled_by_user", "exit_code"]);

/** How an ended job ended: one sentence, what its exit code means, and its last error lines. */
export function Outcome({ job }: { job: JobDetail }) {
  if (!isEnded(job.state)) return null;
  const tone = job.state === "succeeded" ? "good" : job.state === "cancelled" ? "note" : "bad";
  const attempt = job.current_attempt;
  return (
    <Card label="How it ended" tone={tone}>
      <h2>How it ended</h2>
      <p className="sentence">
        {capitalised(stateWord(job.state))}
        {job.ended_at && (
          <>
            {" "}
            <Time at={job.ended_at} />
          </>
        )}
        {job.end_reason && !SAID_BY_STATE.has(job.end_reason) && `: ${endReasonWords(job.end_reason)}`}
        {exitWords(job)}.
      </p>
      {attempt?.ignored_notice && <IgnoredNotice attempt={attempt} signal={job.notice_signal} />}
      {attempt?.message && <p className="dim">{attempt.message}</p>}
      {hasFailed(job.state) && attempt !== null && <Failure job={job} attempt={attempt} />}
    </Card>
  );
}

function endReasonWords(reason: string): string {
  return END_REASON_WORDS[reason] ?? reason.replaceAll("_", " ");
}

/** " with exit code 127 (command not found)", or " (killed by SIGKILL: perhaps out of memory)". */
function exitWords({ state, exit_code: code, exit_code_meaning: meaning }: JobDetail): string {
  if (code === null || state === "succeeded") return "";
  const told = meaning === null ? "" : ` (${meaning})`;
  return code < 0 ? told || ` (signal ${-code})` : ` with exit code ${code}${told}`;
}

function IgnoredNotice({ attempt, signal }: { attempt: Attempt; signal: string }) {
  const { notice_at: notice, grace_until: until } = attempt;
  const graceS = notice === null || until === null ? null : (Date.parse(until) - Date.parse(notice)) / 1000;
  return (
    <p>
      <b>It ignored its notice.</b> It was still running{" "}
      {graceS === null ? "when its grace was over" : `${formatDuration(graceS)} after SIG${signal}`}, so it was stopped
      by force. Work since its last checkpoint is lost.
    </p>
  );
}

function Failure({ job, attempt }: { job: JobDetail; attempt: Attempt }) {
  const canRead = job.can.includes("logs");
  const { data: summary } = useQuery({ ...logSummaryQuery(job.id, job.state), enabled: canRead });
  const ranS =
    attempt.started_at === null || attempt.ended_at === null
      ? null
      : (Date.parse(attempt.ended_at) - Date.parse(attempt.started_at)) / 1000;
  return (
    <>
      <dl className="evidence">
        {job.exit_code !== null && (
          <div>
            <dt>Exit code</dt>
            <dd>{exitCodeWords(attempt.exit_codes)}</dd>
          </div>
        )}
        {job.exit_code_meaning !== null && (
          <div>
            <dt>Meaning</dt>
            <dd>{job.exit_code_meaning}</dd>
          </div>
        )}
        {summary?.node && (
          <div>
            <dt>Node</dt>
            <dd>{summary.node}</dd>
          </div>
        )}
        {ranS !== null && (
          <div>
            <dt>Ran for</dt>
            <dd>{formatDuration(ranS)}</dd>
          </div>
        )}
      </dl>
      {attempt.number > 1 && <AttemptBefore job={job} number={attempt.number - 1} />}
      {summary && summary.error_lines.length > 0 && <ErrorLines summary={summary} />}
      {summary?.error_stream === null && <p className="dim">It wrote nothing to stdout or stderr.</p>}
    </>
  );
}

/** The attempt before in one sentence: whether it ended in the same way, and on the same nodes. */
function AttemptBefore({ job, number }: { job: JobDetail; number: number }) {
  const { data: attempts } = useQuery(jobAttemptsQuery(job.id));
  const before = attempts?.find((each) => each.number === number);
  const last = attempts?.find((each) => each.number === number + 1);
  if (attempts === undefined || before === undefined || last === undefined) return null;
  const shared = nodesOf(last).filter((node) => nodesOf(before).includes(node));
  const [span] = spansOf([before], job, Date.parse(before.ended_at ?? before.granted_at));
  const ran = span === undefined ? null : ranS(span);
  return (
    <p>
      Attempt {number} before it: {attemptWord(before, job)}
      {ran !== null && ` after ${formatDuration(ran)}`}
      {Object.keys(before.exit_codes).length > 0 && `, exit code ${exitCodeWords(before.exit_codes)}`}
      {shared.length > 0 ? `, on the same ${shared.length === 1 ? "node" : "nodes"} ${nodesText(shared)}` : ", on other nodes"}.{" "}
      <Link to="." search={(old) => ({ ...old, tab: "attempts" })}>
        Compare
      </Link>
    </p>
  );
}

function ErrorLines({ summary }: { summary: LogSummary }) {
  const clipboard = useClipboard({ timeout: 1500 });
  const text = summary.error_lines.join("\n");
  const where = `${summary.error_stream}${summary.ranks > 1 ? ` of rank ${summary.rank}` : ""}${summary.node ? ` on ${summary.node}` : ""}`;
  return (
    <>
      <div className="head-with-note">
        <h2>Last error lines</h2>
        <span className="small faint">
          {where} ·{" "}
          <button
            type="button"
            className="plain link small"
            aria-label="Copy the last error lines"
            onClick={() => clipboard.copy(text)}
          >
            {clipboard.copied ? "copied" : "copy"}
          </button>
        </span>
      </div>
      <pre className="error-lines" tabIndex={0} aria-label="Last error lines">
        {text}
      </pre>
    </>
  );
}
