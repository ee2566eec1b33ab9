import { Button, SegmentedControl, Select } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { useLayoutEffect, useMemo, useRef, useState } from "react";

import type { Attempt, LogSummary } from "../api/types";
import { ErrorCard, Lines } from "../ui/states";
import { toastError } from "../ui/toast";
import { mergedLines, readable, type LogLine } from "./logBuffer";
import { downloadLog, useLog, type LogSource, type LogView } from "./useLog";
import "./log.css";

const NEAR_END_PX = 40;

const VIEWS: Record<LogView, string> = { merged: "merged", stdout: "stdout", stderr: "stderr" };

function asView(value: string): LogView {
  return value === "merged" || value === "stderr" ? value : "stdout";
}

/** One stream of one rank of one attempt, or both in one. Follows the end while it is in sight. */
export function LogViewer({
  source,
  attempts,
  streams,
  onChoose,
}: {
  source: LogSource;
  attempts: readonly Pick<Attempt, "number">[];
  /** Which streams have output, as far as that is known. */
  streams: LogSummary["streams"];
  onChoose: (change: Partial<Pick<LogSource, "attempt" | "rank" | "stream">>) => void;
}) {
  const [isPaused, setPaused] = useState(false);
  const { buffer, merged, error, isLoading } = useLog(source, isPaused);
  const isMerged = source.stream === "merged";
  const text = useMemo(() => readable(buffer.text), [buffer.text]);
  const lines = useMemo(() => mergedLines(merged), [merged]);
  const box = useRef<HTMLPreElement>(null);
  const isFollowing = useRef(true);
  useLayoutEffect(() => {
    const element = box.current;
    if (element && isFollowing.current) element.scrollTop = element.scrollHeight;
  }, [text, lines]);

  const save = useMutation({
    mutationFn: () => downloadLog(source),
    onError: toastError,
    onSuccess: (blob) => {
      const link = document.createElement("a");
      link.href = URL.createObjectURL(blob);
      link.download = `${source.job}-attempt${source.attempt}-rank${source.rank}.${source.stream}.txt`;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
    },
  });

  const status = buffer.isFinal
    ? "complete"
    : isPaused
      ? "paused"
      : error
        ? "not up to date"
        : "following";
  return (
    <div className="stack">
      <div className="inline">
        {attempts.length > 1 && (
          <Select
            aria-label="Attempt"
            size="xs"
            w={120}
            allowDeselect={false}
            data={attempts.map(({ number }) => ({ value: String(number), label: `attempt ${number}` }))}
            value={String(source.attempt)}
            onChange={(value) => value && onChoose({ attempt: Number(value), rank: 0 })}
          />
        )}
        {buffer.ranks > 1 && (
          <Select
            aria-label="Rank"
            size="xs"
            w={110}
            searchable
            allowDeselect={false}
            data={Array.from({ length: buffer.ranks }, (_, rank) => ({
              value: String(rank),
              label: `rank ${rank}`,
            }))}
            value={String(source.rank)}
            onChange={(value) => value && onChoose({ rank: Number(value) })}
          />
        )}
        <SegmentedControl
          aria-label="Stream"
          size="xs"
          data={Object.entries(VIEWS).map(([value, name]) => ({
            value,
            label: (
              <StreamName
                name={name}
                hasOutput={streams.some(({ stream, has_output }) => stream === value && has_output)}
              />
            ),
          }))}
          value={source.stream}
          onChange={(stream) => onChoose({ stream: asView(stream) })}
        />
        <span className="dim small" role="status" aria-live="polite">
          {status}
        </span>
        <span className="inline" style={{ marginLeft: "auto" }}>
          {!buffer.isFinal && (
            <Button variant="default" size="xs" aria-pressed={isPaused} onClick={() => setPaused(!isPaused)}>
              {isPaused ? "Continue" : "Pause"}
            </Button>
          )}
          <Button variant="default" size="xs" loading={save.isPending} onClick={() => save.mutate()}>
            Download
          </Button>
        </span>
      </div>
      {error && <ErrorCard error={error} />}
      {buffer.isCut && (
        <p className="small faint">Earlier output is not shown here; the download has all of it.</p>
      )}
      {isMerged && lines.length > 0 && (
        <p className="small faint">
          Logs carry no timestamps: earlier output is grouped by stream, new lines appear as they arrive.
        </p>
      )}
      {isLoading ? (
        <Lines count={6} label="Loading the log" />
      ) : (
        <pre
          ref={box}
          className="log"
          tabIndex={0}
          role="log"
          aria-live="off"
          aria-label={`${isMerged ? "stdout and stderr" : source.stream} of rank ${source.rank}, attempt ${source.attempt}`}
          onScroll={({ currentTarget: at }) => {
            isFollowing.current = at.scrollHeight - at.scrollTop - at.clientHeight < NEAR_END_PX;
          }}
        >
          {isMerged && lines.length > 0 ? (
            <MergedText lines={lines} />
          ) : text === "" ? (
            <span className="faint">
              {error
                ? "Not read yet."
                : buffer.isFinal
                  ? `Nothing was written to ${isMerged ? "stdout or stderr" : source.stream}.`
                  : "Nothing written yet."}
            </span>
          ) : (
            text
          )}
        </pre>
      )}
      {buffer.isTruncated && (
        <p className="small bad-text">The log reached its size cap; later output was not kept.</p>
      )}
    </div>
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

function MergedText({ lines }: { lines: readonly LogLine[] }) {
  return lines.map(({ stream, text }, i) => (
    <span key={i} className={`line ${stream}`}>
      <span className="stream">{stream === "stderr" ? "err" : "out"}</span>
      <span>{`${text}\n`}</span>
    </span>
  ));
}
