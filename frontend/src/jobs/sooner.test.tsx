import { screen, waitFor, within } from "@testing-library/react";
import { describe, expect, it } from "vitest";

import { aCompany, answer } from "../../mock/answer.ts";
import { aProblem } from "../../mock/http.ts";
import { aSession } from "../../mock/company.ts";
import { theJobs } from "../../mock/jobs.ts";
import type { JobAlternatives } from "../api/types";
import { accessibilityFaults, open } from "../test/render";

const WAITING = "01935000-0000-7000-8000-000000008f2c";

describe("what would start a job sooner", () => {
  const answers = (body: object, status = 200) => ({
    override: ({ path }: { path: string }) => (path.endsWith("/alternatives") ? { status, body } : undefined),
  });

  it("is asked of the server once, and told as it answers", async () => {
    const { user, requests, container } = open(`/jobs/${WAITING}`);
    await user.click(await screen.findByRole("button", { name: "Try it" }));
    const card = await screen.findByRole("region", { name: "What would start it sooner" });
    const rows = await within(card).findAllByRole("row");
    expect(rows.slice(1).map((row) => row.textContent)).toEqual([
      "With 48 GPUs on 6 nodesnow on slurm-aSubmit this instead",
      expect.stringMatching(
        /^With a time limit of 1 h.* at the latest, from the grace periods of preempted jobs · waiting for reclaimSubmit this instead$/,
      ) as string,
      "In pool a100never: No node of a100 is so large.",
    ]);
    expect(card).toHaveTextContent("1 of 3 alternatives would start now.");
    expect(requests.filter(({ method }) => method === "POST").map(({ path }) => path)).toEqual([
      `/api/v1/jobs/${WAITING}/alternatives`,
    ]);
    expect(await accessibilityFaults(container)).toEqual([]);
  });

  it("is brought into the submit form, and sent as it was tried", async () => {
    const { user, requests, router } = open(`/jobs/${WAITING}`);
    await user.click(await screen.findByRole("button", { name: "Try it" }));
    await user.click(await screen.findByRole("link", { name: "Submit this instead: With 48 GPUs on 6 nodes" }));
    expect(await screen.findByRole("textbox", { name: "Nodes" })).toHaveValue("6");
    expect(router.state.location.href).toBe(`/submit?from=${WAITING}&instead=nodes:6`);
    const note = screen.getByRole("note");
    expect(note).toHaveTextContent(
      "This is to run in place of pretrain-13b, which stays queued: cancel that one, or both run.",
    );
    expect(within(note).getByRole("link")).toHaveAttribute("href", `/jobs/${WAITING}`);
    await user.click(screen.getByRole("button", { name: "Submit" }));
    const sent = () => requests.filter(({ method, path, query }) => method === "POST" && path === "/api/v1/jobs" && !query.has("dry_run"));
    await waitFor(() => expect(sent()).toHaveLength(1));
    const tried = theJobs().find(({ id }) => id === WAITING);
    expect(sent()[0]?.body).toEqual({
      team: "ai-company/research/nlp",
      name: "pretrain-13b",
      pool: "h100",
      gpus_per_node: 8,
      nodes: 6,
      time_limit_s: 259_200,
      priority_class: "high",
      environment: tried?.environment,
      script: tried?.script,
    });
  });

  it("is told that the job has started meanwhile", async () => {
    const running = theJobs().find(({ state }) => state === "running");
    if (running === undefined) throw new Error("the story has one that runs");
    open(`/submit?from=${running.id}&instead=nodes:1`);
    expect(await screen.findByRole("note")).toHaveTextContent(
      `This is to run in place of ${running.name}, which waits no longer (running).`,
    );
  });

  it("is no way to submit what could never run, nor what one may not read", async () => {
    const { user } = open(`/jobs/${WAITING}`, {
      override: (request) => {
        if (!request.path.endsWith("/alternatives")) return undefined;
        const { status, body } = answer(aCompany(), request);
        const found = body as JobAlternatives;
        const [first, ...others] = found.items;
        if (first === undefined) throw new Error("the mock has some");
        return { status, body: { ...found, items: [{ ...first, request: null }, ...others] } };
      },
    });
    await user.click(await screen.findByRole("button", { name: "Try it" }));
    const card = await screen.findByRole("region", { name: "What would start it sooner" });
    expect((await within(card).findAllByRole("link")).map((link) => link.getAttribute("aria-label"))).toEqual([
      "Submit this instead: With a time limit of 1 h",
    ]);
    expect(card).toHaveTextContent("To submit these from here, you need the right to read the job's script.");
  });

  it("says in the server's words why there is nothing to ask for instead", async () => {
    const sentence = "It waits until prep has succeeded. No other request would start sooner.";
    const { user } = open(
      `/jobs/${WAITING}`,
      answers({ as_of: "2026-11-22T10:00:00Z", sentence, items: [], untried: 0 }),
    );
    await user.click(await screen.findByRole("button", { name: "Try it" }));
    const card = await screen.findByRole("region", { name: "What would start it sooner" });
    expect(await within(card).findByText(sentence)).toBeInTheDocument();
    expect(within(card).queryByRole("table")).toBeNull();
  });

  it("says when to ask again while another job's are worked out", async () => {
    const { user } = open(`/jobs/${WAITING}`, {
      override: ({ path }) =>
        path.endsWith("/alternatives") ? aProblem(429, "too_many", "Ask again in 5 seconds.") : undefined,
    });
    await user.click(await screen.findByRole("button", { name: "Try it" }));
    expect(await screen.findByRole("alert")).toHaveTextContent("Ask again in 5 seconds.");
  });

  it("is not offered to who may not submit there", async () => {
    const session = aSession({ permissions: { "ai-company": ["view_tree", "view_jobs"] } });
    open(`/jobs/${WAITING}`, { company: aCompany({ session }) });
    expect(await screen.findByRole("heading", { name: "Why is it waiting?" })).toBeInTheDocument();
    expect(screen.queryByRole("button", { name: "Try it" })).toBeNull();
  });
});

describe("the reasons of a job", () => {
  it("are told one after another, with how long each held", async () => {
    const { user } = open(`/jobs/${WAITING}`);
    await user.click(await screen.findByRole("tab", { name: "Reasons" }));
    const table = await screen.findByRole("table", { name: "What it has waited for" });
    const rows = within(table).getAllByRole("row").slice(1);
    expect(rows.map((row) => within(row).getByRole("rowheader").firstChild?.textContent)).toEqual([
      "waiting for reclaim",
      "waiting for free GPUs",
    ]);
    expect(rows[1]).toHaveTextContent("29 s");
  });

  it("say that it has not waited", async () => {
    open("/jobs/01935000-0000-7000-8000-000000009002?tab=reasons");
    expect(await screen.findByText("The job has not waited for anything.")).toBeInTheDocument();
  });
});

describe("looking ahead", () => {
  const asked = (answer: () => object) => ({
    override: ({ path }: { path: string }) =>
      path.endsWith("/estimate") ? { status: 200, body: answer() } : undefined,
  });

  it("tells a range, its method and what it takes for granted", async () => {
    const { user, requests } = open(`/jobs/${WAITING}`);
    await user.click(await screen.findByRole("button", { name: "Look ahead" }));
    expect(await screen.findByText(/the arbiter, played on from this moment/)).toBeInTheDocument();
    expect(screen.getByText(/2 without one: a day/)).toBeInTheDocument();
    expect(screen.queryByText(/became too much/)).toBeNull();
    expect(requests.filter(({ path }) => path.endsWith("/estimate")).map(({ body }) => body)).toEqual([{}]);
  });

  it("says that it does not start by then, and where the work became too much", async () => {
    const { user } = open(
      `/jobs/${WAITING}`,
      asked(() => ({
        as_of: "2026-11-22T10:00:00Z",
        estimated_start: { earliest: "2026-11-22T16:00:00Z", latest: null, method: "look_ahead" },
        until: "2026-11-22T16:00:00Z",
        asked_until: "2026-11-23T10:00:00Z",
        assumed_ends: 0,
      })),
    );
    await user.click(await screen.findByRole("button", { name: "Look ahead" }));
    expect(await screen.findByText(/^Not before/)).toBeInTheDocument();
    expect(screen.getByText(/became too much/)).toBeInTheDocument();
  });

  it("says when to ask again while somebody else's future is worked out", async () => {
    const { user } = open(`/jobs/${WAITING}`, {
      override: ({ path }) =>
        path.endsWith("/estimate") ? aProblem(429, "too_many", "Another look-ahead is being computed; ask again in 5 seconds.") : undefined,
    });
    await user.click(await screen.findByRole("button", { name: "Look ahead" }));
    expect(await screen.findByText("Another look-ahead is being computed; ask again in 5 seconds.")).toBeInTheDocument();
  });
});
