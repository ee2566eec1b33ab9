import { screen, waitFor, within } from "@testing-library/react";
import { describe, expect, it } from "vitest";

import { aCompany } from "../../mock/answer.ts";
import { aSession } from "../../mock/company.ts";
import { aWindow, theWindows } from "../../mock/maintenance.ts";
import { accessibilityFaults, open } from "../test/render";

const ROOT = aSession({ permissions: { "": ["view_tree", "manage_members", "manage_clusters"] } });

describe("maintenance", () => {
  // Against: windows that are over list jobs, too.
  it("lists windows, and the jobs that would still run at the start of those ahead", async () => {
    const { container } = open("/maintenance", { company: aCompany({ windows: theWindows() }) });
    const table = within(await screen.findByRole("table", { name: "Maintenance windows" }));
    expect(table.getAllByRole("rowheader").map(({ textContent }) => textContent)).toEqual([
      "kube-bNew switches. · root",
      "slurm-a, pool h100Driver update. · root",
    ]);
    const jobs = within(await screen.findByRole("table", { name: "Jobs still running at the start: kube-b" }));
    expect(jobs.getAllByRole("rowheader").map(({ textContent }) => textContent)).toEqual(["pretrain-7b", "chat-service"]);
    expect(jobs.getByText("no time limit")).toBeInTheDocument();
    expect(screen.queryByRole("heading", { name: /slurm-a/ })).toBeNull();
    expect(screen.getByText("tidegate maintenance list")).toBeInTheDocument();
    expect(screen.queryByRole("button", { name: "Plan maintenance" })).toBeNull();
    expect(await accessibilityFaults(container)).toEqual([]);
  });

  it("is planned with a cluster, times and a reason", async () => {
    const { user, requests } = open("/maintenance", { company: aCompany({ session: ROOT, windows: [] }) });
    expect(await screen.findByText("No maintenance.")).toBeInTheDocument();
    await user.click(screen.getByRole("button", { name: "Plan maintenance" }));
    const dialog = within(await screen.findByRole("dialog", { name: "Plan maintenance" }));
    await user.click(dialog.getByRole("combobox", { name: "Cluster" }));
    await user.click(await screen.findByRole("option", { name: "kube-b" }));
    await user.type(dialog.getByLabelText(/Until/), "2026-12-01T12:00");
    await user.type(dialog.getByRole("textbox", { name: "Reason" }), "New switches.");
    await user.click(dialog.getByRole("button", { name: "Plan" }));
    await waitFor(() =>
      expect(requests.find(({ method, path }) => method === "POST" && path.endsWith("/maintenance-windows"))?.body).toEqual({
        cluster: "kube-b",
        pool: null,
        start: null,
        end: new Date("2026-12-01T12:00").toISOString().replace(".000Z", "Z"),
        reason: "New switches.",
      }),
    );
    expect(await screen.findByRole("table", { name: "Maintenance windows" })).toBeInTheDocument();
  });

  // Against: a change sends the start that nobody touched, which an open window refuses.
  it("is changed and cancelled by people who may", async () => {
    const company = aCompany({ session: ROOT, windows: [aWindow(1, { state: "open" })] });
    const { user, requests } = open("/maintenance", { company });
    await user.click(await screen.findByRole("button", { name: "Change: kube-b" }));
    const dialog = within(await screen.findByRole("dialog", { name: "Change the maintenance" }));
    await user.type(dialog.getByRole("textbox", { name: "Reason" }), " Cables, too.");
    await user.click(dialog.getByRole("button", { name: "Save" }));
    await waitFor(() =>
      expect(requests.find(({ method }) => method === "PATCH")?.body).toEqual({
        end: "2026-12-01T12:00:00Z",
        reason: "New switches. Cables, too.",
      }),
    );
    await user.click(await screen.findByRole("button", { name: "Cancel: kube-b" }));
    const question = within(await screen.findByRole("dialog", { name: "Cancel the maintenance?" }));
    await user.click(question.getByRole("button", { name: "Cancel the maintenance" }));
    expect(await screen.findByRole("cell", { name: "cancelled" })).toBeInTheDocument();
    expect(screen.queryByRole("button", { name: "Cancel: kube-b" })).toBeNull();
  });
});
