import { screen, waitFor, within } from "@testing-library/react";
import { describe, expect, it } from "vitest";

import { aCompany } from "../../mock/answer.ts";
import { aProblem } from "../../mock/http.ts";
import { theCycles } from "../../mock/decisions.ts";
import { aSession } from "../../mock/company.ts";
import { accessibilityFaults, open } from "../test/render";
import { cycleWords, fateWords, kindWords, rightWords } from "./words";

const SERVING = "01935000-0000-7000-8000-000000000320";

describe("words", () => {
  it("count what a cycle did and leave out what it did not", () => {
    expect(theCycles().map(cycleWords)).toEqual([
      "1 started, 1 has room kept for it, 2 preempted",
      "3 started, 1 claim given up",
    ]);
  });

  it("say a fate, and what is new by its own name", () => {
    const fate = { decision: "stopped", cluster: "slurm-a", nodes: [], other_jobs: [], code: null, grace_s: null } as const;
    const other = { id: null, name: null, user: null, team: "ai-company/research/nlp" };
    expect(fateWords({ ...fate, nodes: [], other_jobs: [other], grace_s: 300 })).toBe(
      "preempted on slurm-a for ai-company/research/nlp in 5 min",
    );
    expect(fateWords({ ...fate, nodes: [], other_jobs: [], decision: "waits", cluster: null, code: "never_fits" })).toBe(
      "can never fit",
    );
    expect([rightWords("borrowed_above", "gpu"), rightWords("new_right", "gpu"), kindWords("new_kind")]).toEqual([
      "its department had borrowed",
      "new right",
      "new kind",
    ]);
  });

  it("speak of cores where it is cores", () => {
    expect([rightWords("borrowed", "cpu"), kindWords("claimed", "cpu")]).toEqual([
      "its cores were borrowed",
      "cores kept for it",
    ]);
  });
});

describe("decisions", () => {
  // Planted: the name of the beneficiary's team where it is null; the share that is not guaranteed as guaranteed.
  it("say who was started, who had to go for whom, and what was at risk", async () => {
    const { container } = open("/decisions");
    const stopped = await screen.findAllByRole("row", { name: /serve-llama-7/ });
    expect(stopped.map((row) => row.textContent)).toEqual([
      expect.stringMatching(
        /^serve-llama-7ai-company\/production\/inferencefor pretrain-13b of ai-company\/research\/nlp: its GPUs were borrowedpreempted.*642\.84$/,
      ),
      expect.stringMatching(/for a job of another organization: its department had borrowedpreempted/),
    ]);
    expect(screen.getByRole("row", { name: /^pretrain-13b/ })).toHaveTextContent(/from 2 jobs with 136 GPUs.*200–$/);
    expect(screen.getByRole("row", { name: /^segment-anything/ })).toHaveTextContent(/2 borrowed/);
    expect(screen.queryByRole("radio", { name: "Cycles" })).toBeNull();
    expect(await accessibilityFaults(container)).toEqual([]);
  });

  it("are narrowed by scope, kind and time in the address", async () => {
    const address = "/decisions?scope=ai-company/production&decision=stopped&before=2026-11-21T14:03:00Z";
    const { requests } = open(address);
    await screen.findAllByRole("row", { name: /serve-llama-7/ });
    const [asked] = requests.filter(({ path }) => path === "/api/v1/decisions");
    expect(["team", "decision", "decided_at__lt"].map((name) => asked?.query.get(name))).toEqual([
      "ai-company/production",
      "stopped",
      "2026-11-21T14:03:00Z",
    ]);
    expect(screen.getByText("tidegate decisions --team ai-company/production --decision stopped")).toBeInTheDocument();
  });

  it("say that nothing is recorded", async () => {
    open("/decisions?decision=claim_dropped");
    expect(await screen.findByText(/Nothing of that kind is recorded/)).toBeInTheDocument();
  });

  it("lists the cycles and leads to one, with reasons in words and links to the jobs", async () => {
    const { user, container } = open("/decisions?view=cycles");
    const row = await screen.findByRole("row", { name: /1 started, 1 has room kept for it/ });
    expect(await accessibilityFaults(container)).toEqual([]);
    await user.click(within(row).getByRole("link"));
    expect(await screen.findByText(/Its team was guaranteed 200 GPUs and had 0 in use/)).toBeInTheDocument();
    expect(screen.getByText(/2 jobs waited and 14 ran/)).toBeInTheDocument();
    const victims = screen.getByRole("table", { name: "Jobs that had to go" });
    expect(within(victims).getByRole("link", { name: "serve-llama-7" })).toHaveAttribute("href", `/jobs/${SERVING}`);
    expect(within(victims).getByText("a job that you may not see")).toBeInTheDocument();
    expect(screen.getByText("Something else for 1 job.")).toBeInTheDocument();
    expect(screen.getByRole("row", { name: /segment-anything started on slurm-a waiting for free GPUs/ })).toBeInTheDocument();
    expect(await accessibilityFaults(container)).toEqual([]);
  });

  it("goes back before a moment, kept in the address", async () => {
    const { requests } = open("/decisions?view=cycles&before=2026-11-21T14:03:00Z");
    await screen.findByRole("row", { name: /3 started/ });
    const [asked] = requests.filter(({ path }) => path === "/api/v1/cycles");
    expect(asked?.query.get("decided_at__lt")).toBe("2026-11-21T14:03:00Z");
  });

  it("leave cycles to platform administrators, and lead others to their decisions", async () => {
    open("/decisions?view=cycles", {
      override: ({ path }) => (path === "/api/v1/cycles" ? aProblem(403, "forbidden", "No.") : undefined),
    });
    expect(await screen.findByRole("heading", { name: /for platform administrators/ })).toBeInTheDocument();
    const [nav] = screen.getAllByRole("navigation", { name: "Main" });
    expect(within(nav ?? document.body).getByRole("link", { name: "Decisions" })).toBeInTheDocument();
  });

  it("lead platform administrators to the cycles", async () => {
    const session = aSession({ permissions: { "": ["view_tree", "manage_clusters"] } });
    const { user } = open("/decisions", { company: aCompany({ session }) });
    await user.click(await screen.findByRole("radio", { name: "Cycles" }));
    expect(await screen.findByRole("row", { name: /3 started/ })).toBeInTheDocument();
  });

  it("say when nothing is recorded, and what failed", async () => {
    let isBroken = true;
    const { user } = open("/decisions?view=cycles", {
      override: ({ path }) =>
        path !== "/api/v1/cycles"
          ? undefined
          : isBroken
            ? aProblem(503, "down", "The database does not answer.")
            : { status: 200, body: { items: [], next: null } },
    });
    const alert = await screen.findByRole("alert");
    expect(alert).toHaveTextContent("The database does not answer.");
    isBroken = false;
    await user.click(within(alert).getByRole("button", { name: "Try again" }));
    expect(await screen.findByText(/No cycle is recorded yet/)).toBeInTheDocument();
  });
});

describe("a job's decisions", () => {
  it("say why it was stopped, by whose right, and for whom", async () => {
    const { user } = open(`/jobs/${SERVING}`);
    await user.click(await screen.findByRole("tab", { name: "Decisions" }));
    expect(await screen.findByText(/64 GPUs were reclaimed from it for pretrain-13b/)).toBeInTheDocument();
    expect(screen.getByText("preempted")).toBeInTheDocument();
    expect(screen.getByText(/inference 700 of 280 guaranteed/)).toBeInTheDocument();
    await waitFor(() => expect(screen.getByRole("link", { name: "pretrain-13b" })).toBeInTheDocument());
  });

  // Planted: the tab's panel was always mounted; decisions were read again with all else of jobs.
  it("are asked for when their tab is opened, and not again by each hint", async () => {
    const { user, requests, queryClient } = open(`/jobs/${SERVING}`);
    const tab = await screen.findByRole("tab", { name: "Decisions" });
    const asked = () => requests.filter(({ path }) => path.endsWith("/decisions")).length;
    const hinted = async () => {
      const before = requests.length;
      await queryClient.invalidateQueries({ queryKey: ["jobs"] });
      await waitFor(() => expect(requests.length).toBeGreaterThan(before));
    };
    await hinted();
    expect(asked()).toBe(0);
    await user.click(tab);
    await screen.findByText(/64 GPUs were reclaimed from it/);
    await hinted();
    expect(asked()).toBe(1);
  });

  it("say that nothing is recorded", async () => {
    open("/jobs/01935000-0000-7000-8000-000000009002?tab=decisions");
    expect(await screen.findByText(/No recorded decision started it/)).toBeInTheDocument();
  });
});
