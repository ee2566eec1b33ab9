import { Button, Menu, MultiSelect, SegmentedControl, Select, TextInput } from "@mantine/core";
import { useState } from "react";

import type { Attempt, LogSummary } from "../api/types";
import { LogMatches } from "./LogMatches";
import { LogPane } from "./LogPane";
import type { LogPlace, LogSource, LogView } from "./useLog";
import "./log.css";

/** Ranks that are shown side by side at most. */
export const RANKS_MAX = 4;
/** The longest text that the server looks for. */
const QUERY_CHARS_MAX = 200;
/** Ranks that the list of ranks offers before a search. */
const RANKS_OFFERED = 100;
const VIEWS: Record<LogView, string> = { merged: "merged", stdout: "stdout", stderr: "stderr" };

function asView(value: string): LogView {
  return value === "merged" || value === "stderr" ? value : "stdout";
}

export interface LogChoice {
  attempt?: number;
  ranks?: readonly number[];
  stream?: LogView;
}

/** Streams of one attempt: one rank, or several side by side. */
export function LogViewer({
  source,
  ranks,
  attempts,
  isOver,
  summary,
  onChoose,
}: {
  source: Omit<LogSource, "rank">;
  /** The ranks that are shown, 1 to `RANKS_MAX`. */
  ranks: readonly number[];
  attempts: readonly Pick<Attempt, "number">[];
  /** Whether the attempt of the source has ended. */
  isOver: boolean;
  /** The ranks and streams with output, as far as that is known. */
  summary: Pick<LogSummary, "ranks" | "streams"> | undefined;
  onChoose: (change: LogChoice) => void;
}) {
  const [isPaused, setPaused] = useState(false);
  const [sought, setSought] = useState("");
  const [showsAll, setShowsAll] = useState(false);
  const [places, setPlaces] = useState<ReadonlyMap<string, LogPlace>>(new Map());
  const keyOf = (rank: number) => `${source.job} ${source.attempt} ${rank} ${source.stream}`;
  const setPlace = (key: string, place: LogPlace | null) =>
    setPlaces((before) => {
      const after = new Map(before);
      if (place === null) after.delete(key);
      else after.set(key, place);
      return after;
    });
  const rankCount = Math.max(summary?.ranks ?? 1, ...ranks.map((rank) => rank + 1));
  return (
    <div className="stack">
      <div className="inline">
        <TextInput
          aria-label="Find in the log"
          placeholder="Find in the log"
          maxLength={QUERY_CHARS_MAX}
          size="xs"
          className="log-search"
          value={sought}
          onChange={({ currentTarget }) => {
            setSought(currentTarget.value);
            setPlaces(new Map());
          }}
        />
        {rankCount > 1 && sought.trim() !== "" && (
          <Button variant="default" size="xs" aria-pressed={showsAll} onClick={() => setShowsAll(!showsAll)}>
            All ranks
          </Button>
        )}
        <SegmentedControl
          aria-label="Stream"
          size="xs"
          data={Object.entries(VIEWS).map(([value, name]) => ({
            value,
            label: (
              <StreamName
                name={name}
                hasOutput={summary?.streams.some(({ stream, has_output }) => stream === value && has_output) ?? false}
              />
            ),
          }))}
          value={source.stream}
          onChange={(stream) => onChoose({ stream: asView(stream) })}
        />
        {rankCount > 1 && (
          <MultiSelect
            aria-label="Ranks"
            size="xs"
            className="log-ranks"
            searchable
            limit={RANKS_OFFERED}
            maxValues={RANKS_MAX}
            data={Array.from({ length: rankCount }, (_, rank) => ({ value: String(rank), label: `rank ${rank}` }))}
            value={ranks.map(String)}
            onChange={(values) => values.length > 0 && onChoose({ ranks: values.map(Number) })}
          />
        )}
        {attempts.length > 1 && (
          <Select
            aria-label="Attempt"
            size="xs"
            w={120}
            allowDeselect={false}
            data={attempts.map(({ number }) => ({ value: String(number), label: `attempt ${number}` }))}
            value={String(source.attempt)}
            onChange={(value) => value && onChoose({ attempt: Number(value), ranks: [0] })}
          />
        )}
        <span className="inline" style={{ marginLeft: "auto" }}>
          <Button variant="default" size="xs" aria-pressed={isPaused} onClick={() => setPaused(!isPaused)}>
            {isPaused ? "Continue" : "Pause"}
          </Button>
          <Downloads source={source} ranks={ranks} />
        </span>
      </div>
      <div className="log-panes">
        {ranks.map((rank) => (
          <LogPane
            key={keyOf(rank)}
            source={{ ...source, rank }}
            isPaused={isPaused}
            sought={sought}
            place={places.get(keyOf(rank)) ?? null}
            onPlace={(place) => setPlace(keyOf(rank), place)}
          />
        ))}
      </div>
      {showsAll && rankCount > 1 && sought.trim() !== "" && (
        <LogMatches
          source={source}
          sought={sought}
          isOver={isOver}
          onChoose={({ rank, stream, offset }) => {
            setPlace(keyOf(rank), { stream, offset });
            if (!ranks.includes(rank)) onChoose({ ranks: [rank, ...ranks.slice(1)] });
          }}
        />
      )}
    </div>
  );
}

/** Each stream of the shown ranks as a text, and everything as an archive. The server sends them. */
function Downloads({ source, ranks }: { source: Omit<LogSource, "rank">; ranks: readonly number[] }) {
  const address = `/api/v1/jobs/${source.job}/logs/download?attempt=${source.attempt}`;
  return (
    <Menu position="bottom-end" withinPortal={false}>
      <Menu.Target>
        <Button variant="default" size="xs">
          Download
        </Button>
      </Menu.Target>
      <Menu.Dropdown>
        {ranks.flatMap((rank) =>
          (["stdout", "stderr"] as const).map((stream) => (
            <Menu.Item key={`${rank} ${stream}`} component="a" href={`${address}&rank=${rank}&stream=${stream}`} download>
              {stream} of rank {rank}
            </Menu.Item>
          )),
        )}
        <Menu.Divider />
        <Menu.Item component="a" href={address} download>
          All ranks and streams (ZIP)
        </Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}

/** A dot marks a stream that is not empty. */
function StreamName({ name, hasOutput }: { name: string; hasOutput: boolean }) {
  return (
    <>
      {name}
      {hasOutput && (
        <>
          <span className="has-output" aria-hidden="true" title="has output" />
          <span className="visually-hidden">, has output</span>
        </>
      )}
    </>
  );
}
