import { Button, SegmentedControl, Select } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { useLayoutEffect, useMemo, useRef, useState } from "react";

import type { Attempt } from "../api/types";
import { ErrorCard, Lines } from "../ui/states";
import { toastError } from "../ui/toast";
import { readable } from "./logBuffer";
import { downloadLog, useLog, type LogSource } from "./useLog";
import "./log.css";

const NEAR_END_PX = 40;

/** One stream of one rank of one attempt. Follows the end while it is in sight. */
export function LogViewer({
  source,
  attempts,
  onChoose,
}: {
  source: LogSource;
  attempts: readonly Pick<Attempt, "number">[];
  onChoose: (change: Partial<Pick<LogSource, "attempt" | "rank" | "stream">>) => void;
}) {
  const [isPaused, setPaused] = useState(false);
  const { buffer, error, isLoading } = useLog(source, isPaused);
  const text = useMemo(() => readable(buffer.text), [buffer.text]);
  const box = useRef<HTMLPreElement>(null);
  const isFollowing = useRef(true);
  useLayoutEffect(() => {
    const element = box.current;
    if (element && isFollowing.current) element.scrollTop = element.scrollHeight;
  }, [text]);

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
          data={["stdout", "stderr"]}
          value={source.stream}
          onChange={(stream) => onChoose({ stream: stream === "stderr" ? "stderr" : "stdout" })}
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
      {isLoading ? (
        <Lines count={6} label="Loading the log" />
      ) : (
        <pre
          ref={box}
          className="log"
          tabIndex={0}
          role="log"
          aria-live="off"
          aria-label={`${source.stream} of rank ${source.rank}, attempt ${source.attempt}`}
          onScroll={({ currentTarget: at }) => {
            isFollowing.current = at.scrollHeight - at.scrollTop - at.clientHeight < NEAR_END_PX;
          }}
        >
          {text === "" ? (
            <span className="faint">
              {error
                ? "Not read yet."
                : buffer.isFinal
                  ? `Nothing was written to ${source.stream}.`
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
