import { screen, waitFor, within } from "@testing-library/react";
import { describe, expect, it } from "vitest";

import { accessibilityFaults, open } from "../test/render";

describe("schedules", () => {
  it("shows the next run, and how the last one went", async () => {
    const { container } = open("/schedules");
    const rows = (await screen.findAllByRole("row")).slice(1);
    expect(rows).toHaveLength(3);
    expect(rows[0]).toHaveTextContent(/nightly-eval0 3 \* \* \* Europe\/Berlinbob · ai-company\/research\/nlp/);
    expect(screen.getByRole("link", { name: "running" })).toHaveAttribute(
      "href",
      "/jobs/01935000-0000-7000-8000-000000008f2c",
    );
    expect(rows[1]).toHaveTextContent(/skipped: The run before it has not ended/);
    expect(rows[2]).toHaveTextContent(/suspendedIts owner carol is deactivated\.none yetnone/);
    expect(await accessibilityFaults(container)).toEqual([]);
  });

  // Against: a suspended one that is suspended again.
  it("suspends one", async () => {
    const { user, requests } = open("/schedules");
    await user.click(await screen.findByRole("button", { name: "Suspend nightly-eval" }));
    await waitFor(() => expect(requests.some(({ method }) => method === "PATCH")).toBe(true));
    const sent = requests.find(({ method }) => method === "PATCH");
    expect(sent?.body).toEqual({ is_suspended: true });
    expect(await screen.findByText("nightly-eval is suspended")).toBeInTheDocument();
  });

  // Against: a locked member that is sent.
  it("is created from a template, with values of its free members", async () => {
    const { user, requests, container } = open("/schedules");
    await user.click(await screen.findByRole("button", { name: "New from a template" }));
    const dialog = within(await screen.findByRole("dialog", { name: "New schedule" }));
    await user.click(await dialog.findByRole("combobox", { name: "Template" }));
    await user.click(await screen.findByRole("option", { name: "train-8 (ai-company/research/vision)" }));
    expect(dialog.queryByRole("textbox", { name: "GPUs" })).toBeNull();
    await user.type(dialog.getByRole("textbox", { name: "Times" }), "0 3 * * *");
    await user.type(dialog.getByRole("textbox", { name: "Name" }), "nightly");
    await user.type(dialog.getByRole("textbox", { name: "Time limit" }), "4h");
    expect(await accessibilityFaults(container)).toEqual([]);
    await user.click(dialog.getByRole("button", { name: "Create" }));
    expect(await screen.findByText("The schedule nightly-eval is created")).toBeInTheDocument();
    expect(requests.find(({ method }) => method === "POST")?.body).toEqual({
      cron: "0 3 * * *",
      request: {
        template: "01935000-0000-7000-8000-0000000dd001",
        team: "ai-company/research/vision",
        name: "nightly",
        time_limit: "4h",
      },
    });
  });

  it("asks before one is deleted", async () => {
    const { user, requests } = open("/schedules");
    await user.click(await screen.findByRole("button", { name: "Delete nightly-eval" }));
    expect(requests.some(({ method }) => method === "DELETE")).toBe(false);
    await user.click(within(await screen.findByRole("dialog")).getByRole("button", { name: "Delete" }));
    expect(await screen.findByText("nightly-eval is deleted")).toBeInTheDocument();
    expect(requests.find(({ method }) => method === "DELETE")?.path).toContain("/schedules/01935000");
  });

  it("has a page of one with all of its runs", async () => {
    const { user, container } = open("/schedules");
    await user.click(await screen.findByRole("link", { name: "nightly-eval" }));
    expect(await screen.findByRole("heading", { name: "nightly-eval" })).toBeInTheDocument();
    expect(screen.getByText("each run takes it as it is then")).toBeInTheDocument();
    const rows = within(await screen.findByRole("table", { name: "Runs" })).getAllByRole("row").slice(1);
    expect(rows).toHaveLength(3);
    expect(rows[1]).toHaveTextContent("refused: The pool h100 is archived.");
    expect(within(rows[2] as HTMLElement).getByRole("link", { name: "succeeded" })).toHaveAttribute(
      "href",
      "/jobs/01935000-0000-7000-8000-000000009001",
    );
    expect(screen.getByText("the new run is skipped")).toBeInTheDocument();
    expect(await accessibilityFaults(container)).toEqual([]);
  });

  it("leads from a job to its schedule", async () => {
    open("/jobs/01935000-0000-7000-8000-000000009001");
    expect(await screen.findByRole("link", { name: "nightly-eval" })).toHaveAttribute(
      "href",
      "/schedules/01935000-0000-7000-8000-0000000bb001",
    );
  });
});
