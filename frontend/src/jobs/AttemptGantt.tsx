import type { Attempt, Job } from "../api/types";
import { useNowMs } from "../ui/now";
import { formatClock, formatDuration, zoneName } from "../ui/units";
import { ranS, spansOf, ticksBetween, waitedS, type AttemptSpan } from "./attemptTimes";
import { attemptWord } from "./words";

/** Attempts that the picture shows; the table below has all. */
const SHOWN_MAX = 12;

/** The attempts over time: waits, runs, checkpoints and ends. The table below has the same in figures. */
export function AttemptGantt({
  attempts,
  job,
}: {
  attempts: readonly Attempt[];
  job: Pick<Job, "state" | "attempt" | "ended_at" | "submitted_at">;
}) {
  const nowMs = useNowMs();
  const spans = spansOf(attempts, job, nowMs).slice(-SHOWN_MAX);
  const [first, last] = [spans[0], spans.at(-1)];
  if (first === undefined || last === undefined) return null;
  const fromMs = Math.min(first.waitedFromMs, first.startMs ?? first.waitedFromMs);
  const toMs = Math.max(last.endMs, fromMs + 1000);
  const share = (ms: number) => (100 * Math.min(Math.max(ms - fromMs, 0), toMs - fromMs)) / (toMs - fromMs);
  const place = (ms: number) => `${share(ms)}%`;
  const width = (start: number, end: number) => `max(2px, ${Math.max(0, share(end) - share(start))}%)`;
  return (
    <figure className="gantt" aria-label="Attempts over time">
      <ol>
        {spans.map((span) => (
          <li key={span.attempt.id}>
            <div className="gantt-name">
              <b>Attempt {span.attempt.number}</b>
              <div className="small faint">
                {span.attempt.cluster} · {usedAs(span.attempt)}
              </div>
            </div>
            <div className="gantt-track">
              {ticksBetween(fromMs, toMs).map((at) => (
                <i key={at} className="gantt-line" style={{ left: place(at) }} />
              ))}
              <i className="gantt-wait" style={{ left: place(span.waitedFromMs), width: width(span.waitedFromMs, span.startMs ?? span.endMs) }} />
              {span.startMs !== null && (
                <i className={`gantt-run ${tone(span.attempt)}`} style={{ left: place(span.startMs), width: width(span.startMs, span.endMs) }} />
              )}
              {span.startMs !== null && span.attempt.checkpoint_at !== null && (
                <i className="gantt-save" style={{ left: place(Date.parse(span.attempt.checkpoint_at)) }} />
              )}
              {isBadEnd(span.attempt) && <i className="gantt-end" style={{ left: place(span.endMs) }} />}
            </div>
            <div className="gantt-words small dim">{spanWords(span, job)}</div>
          </li>
        ))}
      </ol>
      <div className="gantt-axis" aria-hidden="true">
        {ticksBetween(fromMs, toMs).map((at) => (
          <span key={at} style={{ left: place(at) }}>
            {formatClock(new Date(at), new Date(nowMs)).replace(/:00$/, "")}
          </span>
        ))}
      </div>
      <figcaption className="gantt-key small dim">
        <span>
          <i className="gantt-run g" /> guaranteed
        </span>
        <span>
          <i className="gantt-run b" /> borrowed, at least in part
        </span>
        <span>
          <i className="gantt-wait" /> waiting
        </span>
        <span>◇ last checkpoint</span>
        <span>
          <i className="gantt-end" /> ended without success
        </span>
        <span>{zoneName(new Date(fromMs))}</span>
      </figcaption>
      {attempts.length > SHOWN_MAX && <p className="small faint">The latest {SHOWN_MAX} of {attempts.length} attempts.</p>}
    </figure>
  );
}

function tone({ borrowed_mgpu: borrowed }: Attempt): "b" | "g" {
  return borrowed > 0 ? "b" : "g";
}

function usedAs({ borrowed_mgpu: borrowed, guaranteed_mgpu: guaranteed }: Attempt): string {
  return borrowed === 0 ? "guaranteed" : guaranteed === 0 ? "borrowed" : "partly borrowed";
}

function isBadEnd({ state, outcome }: Attempt): boolean {
  return state === "ended" && outcome !== "succeeded" && outcome !== "stopped";
}

function spanWords(span: AttemptSpan, job: Pick<Job, "state" | "attempt" | "ended_at">): string {
  const ran = ranS(span);
  const waited = `waited ${formatDuration(waitedS(span))}`;
  return [waited, ran === null ? "not started" : `ran ${formatDuration(ran)}`, attemptWord(span.attempt, job)].join(" · ");
}
