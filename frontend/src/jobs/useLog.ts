import { useQuery } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";

import { ApiError, client, unwrap } from "../api/client";
import { appendChunk, emptyLog, type HeldLog, type Stream } from "./logLines";

const POLL_MS = 1000;
const RETRY_MS = 5000;
const CHUNK_BYTES = 65_536;
/** A viewer begins this far from the end, where the newest lines are. */
const TAIL_BYTES = 262_144;
/** Bytes that are shown before and after a place. */
const BEFORE_BYTES = 65_536;
const AFTER_BYTES = 131_072;
/** The server reads no smaller piece. */
const PIECE_BYTES_MIN = 16;
const STREAMS: readonly Stream[] = ["stdout", "stderr"];

export type LogView = Stream | "merged";

export interface LogSource {
  job: string;
  attempt: number;
  rank: number;
  /** One stream, or both together. */
  stream: LogView;
}

/** The first byte of a line. */
export interface LogPlace {
  stream: Stream;
  offset: number;
}

export interface LiveLog {
  /** The streams that were read, one or both. */
  logs: readonly HeldLog[];
  error: Error | null;
  isLoading: boolean;
}

const NOTHING_READ: LiveLog = { logs: [], error: null, isLoading: true };

export function streamsOf(view: LogView): readonly Stream[] {
  return view === "merged" ? STREAMS : [view];
}

function readChunk(
  { job, attempt, rank }: Omit<LogSource, "stream">,
  stream: Stream,
  offset: number,
  limit: number,
  signal: AbortSignal,
) {
  return unwrap(
    client.GET("/api/v1/jobs/{job_id}/logs", {
      params: { path: { job_id: job }, query: { attempt, rank, stream, offset, limit } },
      signal,
    }),
  );
}

function isMissing(error: unknown): boolean {
  return error instanceof ApiError && error.status === 404;
}

/**
 * Reads one stream or both by offset, every second until they are final or paused. The server checks at each reading
 * that the person may read the log. A component shows one source all its life: give it a `key` made of the source.
 */
export function useLog(source: LogSource, isPaused: boolean): LiveLog {
  const { job, attempt, rank, stream: view } = source;
  const [log, setLog] = useState(NOTHING_READ);
  const read = useRef({ held: new Map<Stream, HeldLog>(), readings: 0 });

  useEffect(() => {
    if (isPaused) return;
    const stop = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    /** Reads on in one stream; the milliseconds after which there may be more, null at its end. */
    const readOn = async (stream: Stream): Promise<number | null> => {
      const from = read.current.held.get(stream) ?? emptyLog(-TAIL_BYTES);
      if (from.isFinal) return null;
      const limit = from.nextOffset < 0 ? TAIL_BYTES : CHUNK_BYTES;
      const chunk = await readChunk({ job, attempt, rank }, stream, from.nextOffset, limit, stop.signal);
      if (stop.signal.aborted) return null;
      read.current.readings += 1;
      read.current.held.set(stream, appendChunk(from, chunk, read.current.readings));
      // A full chunk means that there is more already; an unfinished stream is asked again later.
      if (chunk.text !== "" && chunk.next_offset - chunk.offset >= limit) return 0;
      return chunk.is_final ? null : POLL_MS;
    };
    const readAll = async () => {
      const streams = streamsOf(view);
      const waits: number[] = [];
      const errors: Error[] = [];
      for (const stream of streams) {
        try {
          const wait = await readOn(stream);
          if (wait !== null) waits.push(wait);
        } catch (error) {
          errors.push(error instanceof Error ? error : new Error(String(error)));
        }
        if (stop.signal.aborted) return;
      }
      // Some clusters store one stream only: beside it, the missing one is no fault.
      const faults = errors.length < streams.length ? errors.filter((each) => !isMissing(each)) : errors;
      const [fault] = faults;
      setLog({
        logs: streams.flatMap((stream) => read.current.held.get(stream) ?? []),
        error: fault ?? null,
        isLoading: false,
      });
      if (fault !== undefined) {
        // 404 is also said of a log that is not there yet: the attempt is just starting.
        const status = fault instanceof ApiError ? fault.status : 0;
        const isHopeless = status >= 400 && status < 500 && status !== 404;
        if (!isHopeless) waits.push(status === 404 ? POLL_MS : RETRY_MS);
      }
      if (waits.length > 0) timer = setTimeout(() => void readAll(), Math.min(...waits));
    };
    void readAll();
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [job, attempt, rank, view, isPaused]);

  return log;
}

/** The lines around a place, and the number of the line that begins there. */
export function useLogAround({ job, attempt, rank }: LogSource, place: LogPlace | null) {
  return useQuery({
    queryKey: ["jobs", "log-around", job, attempt, rank, place],
    enabled: place !== null,
    staleTime: Infinity,
    retry: false,
    queryFn: async ({ signal }) => {
      const { stream, offset } = place ?? { stream: "stdout", offset: 0 };
      const start = Math.max(0, offset - BEFORE_BYTES);
      let log = emptyLog(offset);
      if (offset - start >= PIECE_BYTES_MIN) {
        // The piece ends where the line begins, so that its lines are those before.
        const before = await readChunk({ job, attempt, rank }, stream, start, offset - start, signal);
        log = appendChunk(emptyLog(start), before, 0);
      }
      const line = log.lines.length;
      const after = await readChunk({ job, attempt, rank }, stream, log.nextOffset, AFTER_BYTES, signal);
      return { log: appendChunk(log, after, 1), line };
    },
  });
}
