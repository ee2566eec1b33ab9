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

  // Against: the chosen nodes are not shown.
  it("is planned for a number of nodes, and for named ones", async () => {
    const { user, requests } = open("/maintenance", { company: aCompany({ session: ROOT, windows: [] }) });
    const posted = () => requests.filter(({ method }) => method === "POST").map(({ body }) => body);
    await user.click(await screen.findByRole("button", { name: "Plan maintenance" }));
    const dialog = within(await screen.findByRole("dialog", { name: "Plan maintenance" }));
    await user.click(dialog.getByRole("combobox", { name: "Cluster" }));
    await user.click(await screen.findByRole("option", { name: "kube-b" }));
    await user.click(dialog.getByRole("combobox", { name: "Nodes" }));
    await user.click(await screen.findByRole("option", { name: "a number of nodes" }));
    await user.clear(dialog.getByLabelText(/Number of nodes/));
    await user.type(dialog.getByLabelText(/Number of nodes/), "4");
    await user.type(dialog.getByLabelText(/Until/), "2026-12-01T12:00");
    await user.type(dialog.getByRole("textbox", { name: "Reason" }), "Cables.");
    await user.click(dialog.getByRole("button", { name: "Plan" }));
    expect(await screen.findByText("kube-b-1, kube-b-2, kube-b-3, kube-b-4")).toBeInTheDocument();
    expect(screen.getByRole("rowheader", { name: /kube-b, kube-b-1 and 3 more nodes/ })).toBeInTheDocument();
    expect(posted()).toMatchObject([{ cluster: "kube-b", node_count: 4 }]);
    await user.click(screen.getByRole("button", { name: "Plan maintenance" }));
    const again = within(await screen.findByRole("dialog", { name: "Plan maintenance" }));
    await user.click(again.getByRole("combobox", { name: "Cluster" }));
    await user.click(await screen.findByRole("option", { name: "kube-b" }));
    await user.click(again.getByRole("combobox", { name: "Nodes" }));
    await user.click(await screen.findByRole("option", { name: "named nodes" }));
    await user.type(again.getByRole("combobox", { name: /Names of nodes/ }), "n1,n2,");
    await user.type(again.getByLabelText(/Until/), "2026-12-01T12:00");
    await user.type(again.getByRole("textbox", { name: "Reason" }), "Cables.");
    await user.click(again.getByRole("button", { name: "Plan" }));
    await waitFor(() => expect(posted()[1]).toMatchObject({ cluster: "kube-b", nodes: ["n1", "n2"] }));
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
