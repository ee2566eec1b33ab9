import { useEffect, useRef, useState } from "react";

import { ApiError, client, unwrap } from "../api/client";
import { appendChunk, emptyBuffer, type LogBuffer } from "./logBuffer";

const POLL_MS = 1000;
const RETRY_MS = 5000;
const CHUNK_BYTES = 65_536;
/** A viewer starts this far from the end: what people look for is there. */
const TAIL_BYTES = 262_144;

export interface LogSource {
  job: string;
  attempt: number;
  rank: number;
  stream: "stdout" | "stderr";
}

export interface LiveLog {
  buffer: LogBuffer;
  error: Error | null;
  isLoading: boolean;
}

function readChunk({ job, attempt, rank, stream }: LogSource, offset: number, limit: number, signal?: AbortSignal) {
  return unwrap(
    client.GET("/api/v1/jobs/{job_id}/logs", {
      params: { path: { job_id: job }, query: { attempt, rank, stream, offset, limit } },
      signal,
    }),
  );
}

/**
 * Reads a stream by offset, every second until it is final or paused. A component shows one source
 * all its life: give it a `key` made of the source.
 */
export function useLog(source: LogSource, isPaused: boolean): LiveLog {
  const { job, attempt, rank, stream } = source;
  const [log, setLog] = useState<LiveLog>({ buffer: emptyBuffer(-TAIL_BYTES), error: null, isLoading: true });
  const bufferRef = useRef(log.buffer);

  useEffect(() => {
    if (isPaused) return;
    const stop = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const read = async () => {
      try {
        const from = bufferRef.current;
        const limit = from.nextOffset < 0 ? TAIL_BYTES : CHUNK_BYTES;
        const chunk = await readChunk({ job, attempt, rank, stream }, from.nextOffset, limit, stop.signal);
        if (stop.signal.aborted) return;
        bufferRef.current = appendChunk(from, chunk);
        setLog({ buffer: bufferRef.current, error: null, isLoading: false });
        // A full chunk means that there is more already; an unfinished stream is asked again later.
        if (chunk.text !== "" && chunk.next_offset - chunk.offset >= limit) timer = setTimeout(() => void read(), 0);
        else if (!chunk.is_final) timer = setTimeout(() => void read(), POLL_MS);
      } catch (error) {
        if (stop.signal.aborted) return;
        setLog({
          buffer: bufferRef.current,
          error: error instanceof Error ? error : new Error(String(error)),
          isLoading: false,
        });
        // 404 is also said of a log that is not there yet: the attempt is just starting.
        const status = error instanceof ApiError ? error.status : 0;
        const isHopeless = status >= 400 && status < 500 && status !== 404;
        if (!isHopeless) timer = setTimeout(() => void read(), status === 404 ? POLL_MS : RETRY_MS);
      }
    };
    void read();
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [job, attempt, rank, stream, isPaused]);

  return log;
}

/** Most that a download reads, so that a runaway log cannot fill the browser. */
export const MAX_DOWNLOAD_BYTES = 256 * 1024 * 1024;
const DOWNLOAD_CHUNK_BYTES = 1_048_576;

/** The whole stream from its first byte, for saving as a file. */
export async function downloadLog(source: LogSource): Promise<Blob> {
  const parts: string[] = [];
  let offset = 0;
  while (offset < MAX_DOWNLOAD_BYTES) {
    const chunk = await readChunk(source, offset, DOWNLOAD_CHUNK_BYTES);
    parts.push(chunk.text);
    if (chunk.next_offset <= offset || chunk.text === "") break;
    offset = chunk.next_offset;
  }
  return new Blob(parts, { type: "text/plain;charset=utf-8" });
}
