import { act, screen, waitFor, within } from "@testing-library/react";
import { afterEach, describe, expect, it, vi } from "vitest";

import { aProblem } from "../../mock/http.ts";
import { theJobs } from "../../mock/jobs.ts";
import type { LogChunk, LogSearchPage } from "../api/types";
import { accessibilityFaults, open, type Override } from "../test/render";
import { appendChunk, emptyLog, findMatches, hasAllTimes, LIMITS, mergedLines } from "./logLines";

const RUNNING = theJobs().find(({ name }) => name === "serve-llama-6")?.id ?? "";

afterEach(() => {
  vi.useRealTimers();
});

function aChunk(text: string, change: Partial<LogChunk> = {}): LogChunk {
  return {
    attempt: 1,
    rank: 0,
    stream: "stdout",
    offset: 0,
    next_offset: text.length,
    text,
    is_final: false,
    is_truncated: false,
    ranks: 4,
    times: [],
    ...change,
  };
}

const at = (second: number) => `2026-11-24T17:52:${String(second).padStart(2, "0")}Z`;

describe("lines of a log", () => {
  it("are whole, however the pieces cut them", () => {
    // Planted: each piece begins a line.
    let log = appendChunk(emptyLog(0), aChunk("one\ntw"), 1);
    log = appendChunk(log, aChunk("o\n\nth", { times: [{ line: 2, at: at(3) }] }), 2);
    log = appendChunk(log, aChunk("", { is_final: true }), 3);
    expect(log.lines.map(({ text, at: time }) => [text, time])).toEqual([
      ["one", null],
      ["two", null],
      ["", null],
      ["th", at(3)],
    ]);
    expect(log).toMatchObject({ isOpen: true, isFinal: true });
  });

  it("have the time of their begin", () => {
    // Planted: a line that goes on gets the time of its end.
    let log = appendChunk(emptyLog(0), aChunk("one\ntw", { times: [{ line: 0, at: at(1) }] }), 1);
    const times = [{ line: 0, at: at(2) }, { line: 2, at: at(3) }];
    log = appendChunk(log, aChunk("o\nthree\nfour\n", { times }), 2);
    expect(log.lines.map((line) => line.at)).toEqual([at(1), at(1), at(2), at(3)]);
  });

  it("are bounded in number, in all and each, and say what is not held", () => {
    // Planted: a line of 1 MB is held whole.
    let log = appendChunk(emptyLog(0), aChunk(`a\nb\nc\n${"x".repeat(7)}`), 1, { lines: 3, chars: 100, lineChars: 5 });
    expect(log).toMatchObject({ isCut: true, chars: 7 });
    expect(log.lines.map(({ text, cutChars }) => [text, cutChars])).toEqual([["b", 0], ["c", 0], ["xxxxx", 2]]);
    log = appendChunk(log, aChunk("yyy\nz"), 2, { lines: 3, chars: 6, lineChars: 5 });
    expect(log.lines.map(({ text, cutChars }) => [text, cutChars])).toEqual([["xxxxx", 5], ["z", 0]]);
    let long = emptyLog(0);
    for (let i = 0; i < 16; i += 1) long = appendChunk(long, aChunk("x".repeat(65_536)), i);
    expect(long.lines[0]?.text).toHaveLength(LIMITS.lineChars);
    expect(long.lines[0]?.cutChars).toBe(16 * 65_536 - LIMITS.lineChars);
  });

  it("say that they begin late only where something is before them", () => {
    expect(appendChunk(emptyLog(-100), aChunk("x", { offset: 900 }), 1).isCut).toBe(true);
    expect(appendChunk(emptyLog(-100), aChunk("x", { offset: 0 }), 1).isCut).toBe(false);
  });

  it("of two streams are merged by time where all have one, else in the order of reading", () => {
    // Planted: a line without a time comes first.
    const out = appendChunk(emptyLog(0), aChunk("one\nthree\n", { times: [{ line: 0, at: at(1) }, { line: 1, at: at(3) }] }), 1);
    const bad = (time: string | null) =>
      appendChunk(emptyLog(0), aChunk("two\n", { stream: "stderr", times: [{ line: 0, at: time }] }), 2);
    const words = (log: ReturnType<typeof bad>) => mergedLines([out, log]).map(({ text }) => text);
    expect(words(bad(at(2)))).toEqual(["one", "two", "three"]);
    expect(words(bad(null))).toEqual(["one", "three", "two"]);
    expect([hasAllTimes([out, bad(at(2))]), hasAllTimes([out, bad(null)])]).toEqual([true, false]);
  });

  it("are searched without regard to case, at all places", () => {
    const { lines } = appendChunk(emptyLog(0), aChunk("Worker worker\nnone\nWORKER"), 1);
    expect(findMatches(lines, "worker")).toEqual([
      { line: 0, start: 0 },
      { line: 0, start: 7 },
      { line: 2, start: 0 },
    ]);
    expect(findMatches(lines, "")).toEqual([]);
  });
});

describe("the files", () => {
  it("are listed with sizes, and each is a download of the server", async () => {
    const { container } = open(`/jobs/${RUNNING}?tab=files`);
    const table = await screen.findByRole("table", { name: "Files" });
    const row = within(table).getByRole("row", { name: /^metrics.csv 88.0 kB/ });
    expect(within(row).getByRole("link")).toHaveAttribute(
      "href",
      `/api/v1/jobs/${RUNNING}/files/download?attempt=1&name=metrics.csv`,
    );
    expect(screen.getByText("Not listed: 2 links, special files, files of other users or unreadable names.")).toBeInTheDocument();
    expect(screen.getByText(`tidegate files ${RUNNING} --attempt 1`)).toBeInTheDocument();
    expect(await accessibilityFaults(container)).toEqual([]);
  });

  it("say why there are none", async () => {
    const detail = "The files of attempt 1: the portal cannot read the files of jobs on kube-b.";
    open(`/jobs/${RUNNING}?tab=files`, {
      override: ({ path }) => (path.endsWith("/files") ? aProblem(404, "not_found", detail) : undefined),
    });
    expect(await screen.findByText(detail)).toBeInTheDocument();
  });
});

describe("the log viewer", () => {
  const answers =
    (text: (rank: string, stream: string) => string): Override =>
    ({ path, query }) =>
      path.endsWith("/logs")
        ? {
            status: 200,
            body: aChunk(text(query.get("rank") ?? "", query.get("stream") ?? ""), {
              rank: Number(query.get("rank")),
              stream: query.get("stream") ?? "",
              is_final: true,
            }),
          }
        : undefined;

  it("holds only the visible lines of a long log in the page", async () => {
    // Planted: all lines are in the page.
    const text = Array.from({ length: 5_000 }, (_, i) => `step ${i}\n`).join("");
    open(`/jobs/${RUNNING}`, { override: answers(() => text) });
    const log = await screen.findByRole("log");
    await waitFor(() => expect(log).toHaveTextContent("step 0"));
    expect(log.querySelectorAll(".line").length).toBeLessThan(100);
  });

  it("counts matches, goes to the next and the one before, and marks them", async () => {
    const text = Array.from({ length: 300 }, (_, i) => (i % 100 === 0 ? `worker ${i} lost\n` : `step ${i}\n`)).join("");
    const { user, container } = open(`/jobs/${RUNNING}`, { override: answers(() => text) });
    const pane = await screen.findByRole("region", { name: "Log of rank 0" });
    await user.type(screen.getByRole("textbox", { name: "Find in the log" }), "Worker");
    expect(await within(pane).findByText("in view: 3 of 3 matches")).toBeInTheDocument();
    await user.click(within(pane).getByRole("button", { name: "Next match" }));
    expect(pane.querySelector("mark.current")?.parentElement).toHaveTextContent("worker 200 lost");
    await user.click(within(pane).getByRole("button", { name: "Next match" }));
    expect(within(pane).getByText("in view: 1 of 3 matches")).toBeInTheDocument();
    expect(pane.querySelector("mark.current")?.parentElement).toHaveTextContent("worker 0 lost");
    await user.click(within(pane).getByRole("button", { name: "Previous match" }));
    expect(within(pane).getByText("in view: 3 of 3 matches")).toBeInTheDocument();
    expect(await accessibilityFaults(container)).toEqual([]);
  });

  /** A log of which the end is shown, and two lines far before it that the server finds. */
  const aLongLog: Override = ({ path, query }) => {
    if (path.endsWith("/logs/search")) {
      const isSecond = query.get("cursor") === "second";
      const items = [300_000, 700_000].map((offset) => ({
        rank: 0,
        stream: "stdout" as const,
        offset,
        text: `lost at ${offset}`,
        at: at(1),
      }));
      const next = isSecond ? null : `/api/v1/jobs/${RUNNING}/logs/search?cursor=second`;
      return {
        status: 200,
        body: { attempt: 1, ranks: 4, items: isSecond ? items : [], next, scanned_bytes: 1, untimed: 0 },
      };
    }
    if (!path.endsWith("/logs")) return undefined;
    const offset = Number(query.get("offset"));
    const limit = Number(query.get("limit"));
    const text = offset < 0 ? "the end\n" : limit === 65_536 ? "one\ntwo\nthree\n" : `lost at ${offset}\nnext\n`;
    const start = offset < 0 ? 900_000 : offset;
    return { status: 200, body: aChunk(text, { offset: start, next_offset: offset < 0 ? 900_008 : offset + limit, is_final: offset < 0 }) };
  };

  it("finds lines that are not loaded, shows what is around them, and goes back to the end", async () => {
    // Against: one page of the search; the line before the match is marked.
    const { user, container } = open(`/jobs/${RUNNING}`, { override: aLongLog });
    const pane = await screen.findByRole("region", { name: "Log of rank 0" });
    await user.type(screen.getByRole("textbox", { name: "Find in the log" }), "LOST");
    expect(await within(pane).findByText("in the whole log: 2 lines")).toBeInTheDocument();
    expect(within(pane).getByText("in view: no match")).toBeInTheDocument();
    await user.click(within(pane).getByRole("button", { name: "Previous match in the whole log" }));
    expect(await within(pane).findByText("in the whole log: 2 of 2 lines")).toBeInTheDocument();
    await waitFor(() => expect(pane.querySelector("mark.current")?.parentElement).toHaveTextContent("lost at 700000"));
    expect(within(pane).getByText("three")).toBeInTheDocument();
    await user.click(within(pane).getByRole("button", { name: "Previous match in the whole log" }));
    await waitFor(() => expect(pane.querySelector("mark.current")?.parentElement).toHaveTextContent("lost at 300000"));
    expect(await accessibilityFaults(container)).toEqual([]);
    await user.click(within(pane).getByRole("button", { name: "Back to the end" }));
    expect(await within(pane).findByText("the end")).toBeInTheDocument();
    expect(within(pane).queryByText("three")).toBeNull();
  });

  it("searches the end of a log that grows again, until the log is final", async () => {
    // Planted: the first answer of a search stays for ever; the search of a final log is repeated.
    vi.useFakeTimers({ shouldAdvanceTime: true });
    let lines = 1;
    let isFinal = false;
    const override: Override = (request) => {
      if (request.path.endsWith("/logs")) return { status: 200, body: aChunk("", { is_final: isFinal }) };
      const answer = aLongLog(request);
      const isEnd = request.path.endsWith("/logs/search") && request.query.get("cursor") === "second";
      if (!isEnd || answer === undefined) return answer;
      const page = answer.body as LogSearchPage;
      return { ...answer, body: { ...page, items: page.items.slice(0, lines) } };
    };
    const { user, requests } = open(`/jobs/${RUNNING}`, { override });
    const cursors = () => requests.filter(({ path }) => path.endsWith("/logs/search")).map(({ query }) => query.get("cursor"));
    await user.type(await screen.findByRole("textbox", { name: "Find in the log" }), "lost");
    expect(await screen.findByText("in the whole log: 1 line")).toBeInTheDocument();
    expect(cursors()).toEqual([null, "second"]);
    lines = 2;
    await act(() => vi.advanceTimersByTimeAsync(15_000));
    expect(await screen.findByText("in the whole log: 2 lines")).toBeInTheDocument();
    isFinal = true;
    await act(() => vi.advanceTimersByTimeAsync(40_000));
    expect(screen.getByText("complete")).toBeInTheDocument();
    expect(cursors()).toEqual([null, "second", "second", "second"]);
  });

  it("lists the matches of all ranks, each a way to its place", async () => {
    const { user, container } = open(`/jobs/${RUNNING}?rank=1`, { override: aLongLog });
    await user.type(await screen.findByRole("textbox", { name: "Find in the log" }), "lost");
    await user.click(screen.getByRole("button", { name: "All ranks" }));
    const table = await screen.findByRole("table", { name: "Matching lines" });
    expect(await accessibilityFaults(container)).toEqual([]);
    await user.click(within(table).getByRole("button", { name: "lost at 300000" }));
    const pane = await screen.findByRole("region", { name: "Log of rank 0" });
    await waitFor(() => expect(pane.querySelector("mark.current")?.parentElement).toHaveTextContent("lost at 300000"));
  });

  it("says why the log cannot be searched", async () => {
    const detail = "There is no stdout of rank 0 of attempt 1: it is gone";
    const { user } = open(`/jobs/${RUNNING}`, {
      override: ({ path }) => (path.endsWith("/logs/search") ? aProblem(404, "not_found", detail) : undefined),
    });
    await user.type(await screen.findByRole("textbox", { name: "Find in the log" }), "lost");
    expect(await screen.findByText(detail)).toBeInTheDocument();
  });

  it("shows several ranks side by side, and keeps them in the address", async () => {
    const { user, router, container } = open(`/jobs/${RUNNING}?rank=1&beside=3`, {
      override: answers((rank) => `from rank ${rank}\n`),
    });
    expect(await screen.findByRole("log", { name: "stdout of rank 1, attempt 1" })).toHaveTextContent("from rank 1");
    expect(await screen.findByRole("log", { name: "stdout of rank 3, attempt 1" })).toHaveTextContent("from rank 3");
    await user.click(screen.getByRole("combobox", { name: "Ranks" }));
    await user.click(await screen.findByRole("option", { name: "rank 2" }));
    expect(await screen.findByRole("log", { name: "stdout of rank 2, attempt 1" })).toHaveTextContent("from rank 2");
    expect(router.state.location.search).toMatchObject({ beside: "3,2" });
    expect(await accessibilityFaults(container)).toEqual([]);
  });

  it("says how streams are merged, and that no times are stored", async () => {
    open(`/jobs/${RUNNING}?stream=merged`, { override: answers((_, stream) => `${stream}\n`) });
    expect(await screen.findByText("This cluster stores no times of lines.")).toBeInTheDocument();
    expect(screen.getByText("The streams are in the order of reading, because some lines have no time.")).toBeInTheDocument();
  });

  it("offers each shown stream and everything as downloads of the server", async () => {
    // Planted: the browser gathers the pieces itself.
    const { user } = open(`/jobs/${RUNNING}?rank=2`, { override: answers(() => "x\n") });
    await user.click(await screen.findByRole("button", { name: "Download" }));
    const links = await screen.findAllByRole("menuitem");
    expect(links.map((link) => [link.textContent, link.getAttribute("href")])).toEqual([
      ["stdout of rank 2", `/api/v1/jobs/${RUNNING}/logs/download?attempt=1&rank=2&stream=stdout`],
      ["stderr of rank 2", `/api/v1/jobs/${RUNNING}/logs/download?attempt=1&rank=2&stream=stderr`],
      ["All ranks and streams (ZIP)", `/api/v1/jobs/${RUNNING}/logs/download?attempt=1`],
    ]);
  });
});
