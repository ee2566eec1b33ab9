import { Button } from "@mantine/core";
import { useMemo, useState } from "react";

import { ErrorCard, Lines } from "../ui/states";
import { formatCount } from "../ui/units";
import { findMatches, hasAllTimes, MATCHES_MAX, mergedLines, placesOf, type HeldLog, type Match } from "./logLines";
import { LogText } from "./LogText";
import { useLog, useLogAround, type LogPlace, type LogSource } from "./useLog";
import { useLogSearch, type LogSearch } from "./useLogSearch";

/** The log of one rank: its end, or the lines around a place, with what was found in it. */
export function LogPane({
  source,
  isPaused,
  sought,
  place,
  onPlace,
}: {
  source: LogSource;
  isPaused: boolean;
  sought: string;
  /** The line whose surroundings are shown instead of the end. */
  place: LogPlace | null;
  onPlace: (place: LogPlace | null) => void;
}) {
  const live = useLog(source, isPaused);
  const around = useLogAround(source, place);
  const isComplete = live.logs.length > 0 && live.logs.every(({ isFinal }) => isFinal);
  const search = useLogSearch(source, sought, isComplete);
  const found = place === null ? undefined : around.data;
  const logs = useMemo(() => (place === null ? live.logs : found ? [found.log] : []), [place, live.logs, found]);
  const error = place === null ? live.error : around.error;
  const lines = useMemo(() => mergedLines(logs), [logs]);
  const matches = useMemo(() => findMatches(lines, sought), [lines, sought]);
  const [chosen, setChosen] = useState<{ lines: LogPlace | null; sought: string; number: number } | null>(null);
  const isChosen = chosen?.sought === sought && chosen.lines === place;
  // Until a match is chosen, the last one is current: a log is read from its end.
  const number = Math.min(isChosen ? chosen.number : Infinity, matches.length - 1);
  const step = (by: number) =>
    setChosen({ lines: place, sought, number: isChosen ? (number + by + matches.length) % matches.length : number });
  const current = useMemo((): Match | null => {
    if (isChosen) return matches[number] ?? null;
    if (!found) return null;
    const wanted = sought.trim().toLowerCase();
    const [start = 0] = wanted === "" ? [] : placesOf(found.log.lines[found.line]?.text ?? "", wanted);
    return { line: found.line, start };
  }, [isChosen, matches, number, found, sought]);
  const status = place ? `around a match in ${place.stream}` : isComplete ? "complete" : isPaused ? "paused" : error ? "not up to date" : "following";
  const isMerged = source.stream === "merged";
  const name = `${isMerged ? "stdout and stderr" : source.stream} of rank ${source.rank}, attempt ${source.attempt}`;
  return (
    <section className="log-pane" aria-label={`Log of rank ${source.rank}`}>
      <div className="inline">
        <span className="small">rank {source.rank}</span>
        <span className="dim small" role="status" aria-live="polite">
          {status}
        </span>
        {place !== null && (
          <Button variant="default" size="compact-xs" onClick={() => onPlace(null)}>
            Back to the end
          </Button>
        )}
        {sought !== "" && (
          <Steps
            what="match"
            text={`in view: ${countText(number, matches.length)}`}
            isOff={matches.length === 0}
            onStep={step}
          />
        )}
      </div>
      {sought.trim() !== "" && <WholeLog search={search} place={place} onPlace={onPlace} />}
      {error && <ErrorCard error={error} />}
      {(place === null ? live.isLoading : around.isLoading) ? (
        <Lines count={6} label="Loading the log" />
      ) : (
        <LogText
          key={place === null ? "end" : `${place.stream} ${place.offset}`}
          name={name}
          lines={lines}
          sought={sought}
          current={current}
          showsStream={isMerged}
          empty={emptyText(error, isComplete, isMerged ? "stdout or stderr" : source.stream)}
        />
      )}
      <Remarks logs={logs} isMerged={isMerged && place === null} isAround={place !== null} />
    </section>
  );
}

/** The matching lines of the whole log: how many there are, and the way to each. */
function WholeLog({
  search,
  place,
  onPlace,
}: {
  search: LogSearch;
  place: LogPlace | null;
  onPlace: (place: LogPlace) => void;
}) {
  const { matches } = search;
  const number = matches.findIndex(({ stream, offset }) => stream === place?.stream && offset === place.offset);
  const step = (by: number) => {
    // The first step leads to the last match, since a log is read from its end.
    const last = matches.length - 1;
    const next = matches[number < 0 ? (by < 0 ? last : 0) : (number + by + matches.length) % matches.length];
    if (next) onPlace({ stream: next.stream, offset: next.offset });
  };
  return (
    <div className="inline">
      {search.error ? (
        <span className="small bad-text" role="status">
          {search.error.message}
        </span>
      ) : (
        <Steps what="match in the whole log" text={wholeText(search, number)} isOff={matches.length === 0} onStep={step} />
      )}
      {search.hasMore && !search.isSearching && (
        <Button variant="default" size="compact-xs" onClick={search.searchOn}>
          Search on
        </Button>
      )}
    </div>
  );
}

/** A count, with buttons to the match before and the next one. */
function Steps({ what, text, isOff, onStep }: { what: string; text: string; isOff: boolean; onStep: (by: number) => void }) {
  return (
    <span className="inline small" style={{ marginLeft: "auto" }}>
      <span role="status">{text}</span>
      <button type="button" className="plain link" aria-label={`Previous ${what}`} disabled={isOff} onClick={() => onStep(-1)}>
        ↑
      </button>
      <button type="button" className="plain link" aria-label={`Next ${what}`} disabled={isOff} onClick={() => onStep(1)}>
        ↓
      </button>
    </span>
  );
}

/** The number of matching lines of the whole log, as far as it was searched. */
export function wholeText({ matches, isSearching, hasMore }: LogSearch, number: number): string {
  const count = `${formatCount(matches.length)}${hasMore || isSearching ? "+" : ""}`;
  const noun = matches.length === 1 ? "line" : "lines";
  if (isSearching && matches.length === 0) return "in the whole log: searching…";
  return `in the whole log: ${number < 0 ? "" : `${formatCount(number + 1)} of `}${count} ${noun}`;
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
function Remarks({ logs, isMerged, isAround }: { logs: readonly HeldLog[]; isMerged: boolean; isAround: boolean }) {
  const written = logs.filter(({ lines }) => lines.length > 0);
  const hasTimes = written.some(({ lines }) => lines.some(({ at }) => at !== null));
  if (isAround) return null;
  return (
    <>
      {logs.some(({ isCut }) => isCut) && (
        <p className="small faint">
          Earlier lines are not loaded. The search finds them, and a download has all of them.
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
