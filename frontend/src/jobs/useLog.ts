import { useEffect, useRef, useState } from "react";

import { ApiError, client, unwrap } from "../api/client";
import { appendChunk, emptyBuffer, mergePiece, NOTHING_MERGED, type LogBuffer, type MergedLog, type Stream } from "./logBuffer";

const POLL_MS = 1000;
const RETRY_MS = 5000;
const CHUNK_BYTES = 65_536;
/** A viewer starts this far from the end: what people look for is there. */
const TAIL_BYTES = 262_144;
const STREAMS: readonly Stream[] = ["stdout", "stderr"];

export type LogView = Stream | "merged";

export interface LogSource {
  job: string;
  attempt: number;
  rank: number;
  /** One stream, or both in one. */
  stream: LogView;
}

export interface LiveLog {
  /** Of the stream; of a merged view what is true of both. */
  buffer: LogBuffer;
  merged: MergedLog;
  error: Error | null;
  isLoading: boolean;
}

function streamsOf(view: LogView): readonly Stream[] {
  return view === "merged" ? STREAMS : [view];
}

function readChunk(
  { job, attempt, rank }: Omit<LogSource, "stream">,
  stream: Stream,
  offset: number,
  limit: number,
  signal?: AbortSignal,
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

/** Both streams at once: complete when both are, and cut when one is. */
function together(buffers: readonly LogBuffer[]): LogBuffer {
  const [first, ...others] = buffers;
  if (first === undefined) return emptyBuffer(-TAIL_BYTES);
  return others.reduce(
    (all, each) => ({
      ...all,
      text: all.text + each.text,
      isCut: all.isCut || each.isCut,
      isFinal: all.isFinal && each.isFinal,
      isTruncated: all.isTruncated || each.isTruncated,
      ranks: Math.max(all.ranks, each.ranks),
    }),
    first,
  );
}

/**
 * Reads one stream or both by offset, every second until they are final or paused. A component shows one source
 * all its life: give it a `key` made of the source.
 */
export function useLog(source: LogSource, isPaused: boolean): LiveLog {
  const { job, attempt, rank, stream: view } = source;
  const [log, setLog] = useState<LiveLog>({
    buffer: emptyBuffer(-TAIL_BYTES),
    merged: NOTHING_MERGED,
    error: null,
    isLoading: true,
  });
  const read = useRef<{ buffers: Map<Stream, LogBuffer>; merged: MergedLog }>({
    buffers: new Map(),
    merged: NOTHING_MERGED,
  });

  useEffect(() => {
    if (isPaused) return;
    const stop = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    /** Reads on in one stream; the milliseconds after which there may be more, null at its end. */
    const readOn = async (stream: Stream): Promise<number | null> => {
      const from = read.current.buffers.get(stream) ?? emptyBuffer(-TAIL_BYTES);
      if (from.isFinal) return null;
      const limit = from.nextOffset < 0 ? TAIL_BYTES : CHUNK_BYTES;
      const chunk = await readChunk({ job, attempt, rank }, stream, from.nextOffset, limit, stop.signal);
      if (stop.signal.aborted) return null;
      read.current.buffers.set(stream, appendChunk(from, chunk));
      if (view === "merged") read.current.merged = mergePiece(read.current.merged, stream, chunk.text);
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
      // Some clusters keep one stream only: beside it, the missing one is no fault.
      const faults = errors.length < streams.length ? errors.filter((each) => !isMissing(each)) : errors;
      const [fault] = faults;
      setLog({
        buffer: together(streams.flatMap((stream) => read.current.buffers.get(stream) ?? [])),
        merged: read.current.merged,
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

/** Most that a download reads of a stream, so that a runaway log cannot fill the browser. */
export const MAX_DOWNLOAD_BYTES = 256 * 1024 * 1024;
/** The most that the server gives at once. */
const DOWNLOAD_CHUNK_BYTES = 262_144;

/** The whole log from its first byte, for saving as a file; of both streams one after the other. */
export async function downloadLog(source: LogSource): Promise<Blob> {
  const parts: string[] = [];
  const streams = streamsOf(source.stream);
  const missing: unknown[] = [];
  for (const stream of streams) {
    if (streams.length > 1) parts.push(`==> ${stream} <==\n`);
    let offset = 0;
    try {
      while (offset < MAX_DOWNLOAD_BYTES) {
        const chunk = await readChunk(source, stream, offset, DOWNLOAD_CHUNK_BYTES);
        parts.push(chunk.text);
        if (chunk.next_offset <= offset || chunk.text === "") break;
        offset = chunk.next_offset;
      }
    } catch (error) {
      if (!isMissing(error) || missing.length === streams.length - 1) throw error;
      missing.push(error);
    }
    if (streams.length > 1) parts.push("\n");
  }
  return new Blob(parts, { type: "text/plain;charset=utf-8" });
}
