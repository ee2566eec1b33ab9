import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import { connectLive, type LiveState, type Topic } from "./live";

class FakeSocket {
  onopen: (() => void) | null = null;
  onmessage: ((event: { data: string }) => void) | null = null;
  onclose: ((event: { code: number }) => void) | null = null;
  isClosed = false;
  close(code = 1006): void {
    if (this.isClosed) return;
    this.isClosed = true;
    this.onclose?.({ code });
  }
  hint(seq: number, topic: string): void {
    this.onmessage?.({ data: JSON.stringify({ seq, topic, at: "2026-11-21T14:03:10Z" }) });
  }
}

const ALL: Topic[] = ["clusters", "jobs", "notices", "quotas", "reports", "requests"];

describe("change hints", () => {
  let sockets: FakeSocket[];
  let changes: Topic[][];
  let states: LiveState[];
  let signedOut: number;
  let disconnect: () => void;
  const newest = () => {
    const socket = sockets.at(-1);
    if (!socket) throw new Error("no connection was opened");
    return socket;
  };

  beforeEach(() => {
    vi.useFakeTimers();
    sockets = [];
    changes = [];
    states = [];
    signedOut = 0;
    disconnect = connectLive({
      url: "ws://portal/ws/changes",
      onChange: (topics) => changes.push([...topics].sort()),
      onState: (state) => states.push(state),
      onSignedOut: () => (signedOut += 1),
      random: () => 1,
      open: () => {
        const socket = new FakeSocket();
        sockets.push(socket);
        return socket as unknown as WebSocket;
      },
    });
  });
  afterEach(() => {
    disconnect();
    vi.useRealTimers();
  });

  it("gathers a second's hints into one", () => {
    newest().onopen?.();
    for (let seq = 1; seq <= 40; seq += 1) newest().hint(seq, seq % 2 ? "jobs" : "quotas");
    expect(changes).toEqual([]);
    vi.advanceTimersByTime(1000);
    expect(changes).toEqual([["jobs", "quotas"]]);
  });

  it("fetches everything after a gap", () => {
    newest().onopen?.();
    newest().hint(7, "jobs");
    newest().hint(9, "jobs");
    vi.advanceTimersByTime(1000);
    expect(changes).toEqual([ALL]);
  });

  it("comes back with growing pauses and then fetches everything", () => {
    newest().onopen?.();
    newest().close();
    expect(states.at(-1)).toBe("polling");
    vi.advanceTimersByTime(999);
    expect(sockets).toHaveLength(1);
    vi.advanceTimersByTime(1);
    expect(sockets).toHaveLength(2);
    newest().close();
    vi.advanceTimersByTime(1999);
    expect(sockets).toHaveLength(2);
    vi.advanceTimersByTime(1);
    newest().onopen?.();
    expect(states.at(-1)).toBe("live");
    vi.advanceTimersByTime(1000);
    expect(changes).toEqual([ALL]);
  });

  it("gives up a connection that never opens", () => {
    vi.advanceTimersByTime(10_000);
    expect(newest().isClosed).toBe(true);
    expect(states.at(-1)).toBe("polling");
  });

  it("fetches everything every 30 s whatever happens", () => {
    vi.advanceTimersByTime(60_000);
    expect(changes).toEqual([ALL, ALL]);
  });

  it("asks who is signed in when the server says nobody is", () => {
    newest().onopen?.();
    newest().close(1006);
    expect(signedOut).toBe(0);
    vi.advanceTimersByTime(1000);
    newest().close(4401);
    expect(signedOut).toBe(1);
  });

  it("ignores what it does not understand", () => {
    newest().onopen?.();
    newest().onmessage?.({ data: "not json" });
    newest().hint(1, "weather");
    vi.advanceTimersByTime(1000);
    expect(changes).toEqual([]);
  });

  it("stays closed once it is ended", () => {
    disconnect();
    vi.advanceTimersByTime(120_000);
    expect(sockets).toHaveLength(1);
    expect(changes).toEqual([]);
  });
});
