import { useMemo, useState } from "react";

import { ErrorCard, Lines } from "../ui/states";
import { findMatches, hasAllTimes, MATCHES_MAX, mergedLines, type HeldLog } from "./logLines";
import { LogText } from "./LogText";
import { useLog, type LogSource } from "./useLog";

/** The log of one rank, with what was found in it. */
export function LogPane({ source, isPaused, sought }: { source: LogSource; isPaused: boolean; sought: string }) {
  const { logs, error, isLoading } = useLog(source, isPaused);
  const lines = useMemo(() => mergedLines(logs), [logs]);
  const matches = useMemo(() => findMatches(lines, sought), [lines, sought]);
  const [chosen, setChosen] = useState<{ sought: string; number: number } | null>(null);
  const isComplete = logs.length > 0 && logs.every(({ isFinal }) => isFinal);
  // Until a match is chosen, the last one is current: a log is read from its end.
  const number = Math.min(chosen?.sought === sought ? chosen.number : Infinity, matches.length - 1);
  const step = (by: number) =>
    setChosen({ sought, number: chosen?.sought === sought ? (number + by + matches.length) % matches.length : number });
  const status = isComplete ? "complete" : isPaused ? "paused" : error ? "not up to date" : "following";
  const isMerged = source.stream === "merged";
  const name = `${isMerged ? "stdout and stderr" : source.stream} of rank ${source.rank}, attempt ${source.attempt}`;
  return (
    <section className="log-pane" aria-label={`Log of rank ${source.rank}`}>
      <div className="inline">
        <span className="small">rank {source.rank}</span>
        <span className="dim small" role="status" aria-live="polite">
          {status}
        </span>
        {sought !== "" && (
          <span className="inline small" style={{ marginLeft: "auto" }}>
            <span role="status">{countText(number, matches.length)}</span>
            <button type="button" className="plain link" aria-label="Previous match" disabled={matches.length === 0} onClick={() => step(-1)}>
              ↑
            </button>
            <button type="button" className="plain link" aria-label="Next match" disabled={matches.length === 0} onClick={() => step(1)}>
              ↓
            </button>
          </span>
        )}
      </div>
      {error && <ErrorCard error={error} />}
      {isLoading ? (
        <Lines count={6} label="Loading the log" />
      ) : (
        <LogText
          name={name}
          lines={lines}
          sought={sought}
          current={chosen?.sought === sought ? (matches[number] ?? null) : null}
          showsStream={isMerged}
          empty={emptyText(error, isComplete, isMerged ? "stdout or stderr" : source.stream)}
        />
      )}
      <Remarks logs={logs} isMerged={isMerged} />
    </section>
  );
}

function countText(number: number, count: number): string {
  if (count === 0) return "no match";
  const all = count === MATCHES_MAX ? `${count}+` : String(count);
  return `${number + 1} of ${all} ${count === 1 ? "match" : "matches"}`;
}

function emptyText(error: Error | null, isComplete: boolean, stream: string): string {
  if (error) return "Not read yet.";
  return isComplete ? `Nothing was written to ${stream}.` : "Nothing written yet.";
}

/** What the lines do not say by themselves. */
function Remarks({ logs, isMerged }: { logs: readonly HeldLog[]; isMerged: boolean }) {
  const written = logs.filter(({ lines }) => lines.length > 0);
  const hasTimes = written.some(({ lines }) => lines.some(({ at }) => at !== null));
  return (
    <>
      {logs.some(({ isCut }) => isCut) && (
        <p className="small faint">
          Earlier lines are not loaded; search and view cover the lines since then. A download has all of them.
        </p>
      )}
      {written.length > 0 && !hasTimes && <p className="small faint">This cluster stores no times of lines.</p>}
      {isMerged && written.length > 1 && (
        <p className="small faint">
          {hasAllTimes(written)
            ? "The streams are merged by time, to the second."
            : "The streams are in the order of reading, because some lines have no time."}
        </p>
      )}
      {logs.some(({ isTruncated }) => isTruncated) && (
        <p className="small bad-text">The log reached its size cap; later output was not stored.</p>
      )}
    </>
  );
}
