/**
 * Change hints over one WebSocket. A hint is never data: it says which queries to fetch again.
 *
 * Hints are gathered for a second before they are passed on, so a busy fleet costs one refetch a
 * second and not one per job. A gap in `seq`, a reconnect and every 30 s refetch everything.
 */
export type Topic = "jobs" | "quotas" | "clusters" | "reports" | "notices" | "requests";
export type LiveState = "connecting" | "live" | "polling";

const TOPICS: readonly Topic[] = ["jobs", "quotas", "clusters", "reports", "notices", "requests"];
const COALESCE_MS = 1000;
const POLL_MS = 30_000;
/** A connection that neither opens nor fails within this time is given up. */
const CONNECT_TIMEOUT_MS = 10_000;
/** Close code of a connection without a session. */
const SIGNED_OUT = 4401;
const BACKOFF_MIN_MS = 1000;
const BACKOFF_MAX_MS = 30_000;

export interface LiveOptions {
  url: string;
  onChange: (topics: ReadonlySet<Topic>) => void;
  onState: (state: LiveState) => void;
  /** The server closed the connection because nobody is signed in any more. */
  onSignedOut: () => void;
  open?: (url: string) => WebSocket;
  random?: () => number;
}

/** Opens the connection and keeps it open. Returns the function that ends it for good. */
export function connectLive({
  url,
  onChange,
  onState,
  onSignedOut,
  open = (address) => new WebSocket(address),
  random = Math.random,
}: LiveOptions): () => void {
  let socket: WebSocket | null = null;
  let isClosed = false;
  let failures = 0;
  let lastSeq: number | null = null;
  let wasLive = false;
  const pending = new Set<Topic>();
  let flushTimer: ReturnType<typeof setTimeout> | undefined;
  let retryTimer: ReturnType<typeof setTimeout> | undefined;
  let connectTimer: ReturnType<typeof setTimeout> | undefined;

  const flush = () => {
    flushTimer = undefined;
    const topics = new Set(pending);
    pending.clear();
    if (topics.size > 0) onChange(topics);
  };
  const note = (topics: Iterable<Topic>) => {
    for (const topic of topics) pending.add(topic);
    flushTimer ??= setTimeout(flush, COALESCE_MS);
  };
  const retry = () => {
    if (isClosed) return;
    onState("polling");
    const delay = Math.min(BACKOFF_MAX_MS, BACKOFF_MIN_MS * 2 ** Math.min(failures, 10));
    failures += 1;
    retryTimer = setTimeout(connect, delay * (0.5 + random() / 2));
  };
  const connect = () => {
    if (isClosed) return;
    try {
      socket = open(url);
    } catch {
      retry();
      return;
    }
    const mine = socket;
    connectTimer = setTimeout(() => mine.close(), CONNECT_TIMEOUT_MS);
    mine.onopen = () => {
      clearTimeout(connectTimer);
      failures = 0;
      lastSeq = null;
      onState("live");
      if (wasLive) note(TOPICS);
      wasLive = true;
    };
    mine.onmessage = (event: MessageEvent<unknown>) => {
      const hint = parseHint(event.data);
      if (hint === null) return;
      const hasGap = lastSeq !== null && hint.seq !== lastSeq + 1;
      lastSeq = hint.seq;
      note(hasGap ? TOPICS : [hint.topic]);
    };
    mine.onclose = (event: CloseEvent) => {
      clearTimeout(connectTimer);
      if (event.code === SIGNED_OUT && !isClosed) onSignedOut();
      if (socket === mine) retry();
    };
  };

  onState("connecting");
  connect();
  const pollTimer = setInterval(() => {
    if (document.visibilityState === "visible") onChange(new Set(TOPICS));
  }, POLL_MS);
  return () => {
    isClosed = true;
    clearTimeout(flushTimer);
    clearTimeout(retryTimer);
    clearTimeout(connectTimer);
    clearInterval(pollTimer);
    socket?.close();
  };
}

function parseHint(data: unknown): { seq: number; topic: Topic } | null {
  if (typeof data !== "string") return null;
  try {
    const hint = JSON.parse(data) as { seq?: unknown; topic?: unknown };
    const topic = TOPICS.find((known) => known === hint.topic);
    if (typeof hint.seq !== "number" || topic === undefined) return null;
    return { seq: hint.seq, topic };
  } catch {
    return null;
  }
}
