import { screen, waitFor, within } from "@testing-library/react";
import { describe, expect, it } from "vitest";

import { aCompany } from "../../mock/answer.ts";
import { accessibilityFaults, open } from "../test/render";

const PREEMPTED = "llm-finetune is being preempted. Save its work before it stops.";

describe("notices page", () => {
  it("lists my notices with their deadline, newest first", async () => {
    const { container } = open("/notices");
    const table = await screen.findByRole("table", { name: "Notices" });
    const rows = within(table).getAllByRole("row").slice(1);
    expect(rows.map((row) => row.textContent)).toEqual([
      expect.stringMatching(/^Unread: llm-finetune is being preempted.*Job is being preempted · .*▲ (4:00|3:5\d) left/),
      expect.stringMatching(/^Unread: The adjustment about 2,000.00 EUR.*Decision waits · .*until /),
      expect.stringMatching(/^Unread: The budget nlp in November.*Budget · /),
      expect.stringMatching(/^ai-company\/research\/nlp used .*Weekly figures · .*Cost, h10016,824.50 EUR/),
      expect.stringMatching(/^llm-finetune failed.*Job failed · /),
      expect.stringMatching(/^1,204.5 GPU-hours of credits.*Credits expire · .*until /),
    ]);
    expect(within(table).getByRole("link", { name: PREEMPTED })).toHaveAttribute(
      "href",
      "/jobs/01935000-0000-7000-8000-000000009001",
    );
    expect(await accessibilityFaults(container)).toEqual([]);
  });

  // Against: a filter that is not sent, or not named in the command.
  it("is filtered by event, object and what is unread", async () => {
    const { user, requests } = open("/notices");
    const [first] = await screen.findAllByTitle("Show only the notices of this object");
    await user.click(first as HTMLElement);
    await user.click(screen.getByRole("checkbox", { name: "Unread only" }));
    const asked = () => requests.filter(({ path, query }) => path.endsWith("/notices") && query.get("limit") === "50");
    await waitFor(() => expect(asked().at(-1)?.query.get("unread")).toBe("true"));
    expect(Object.fromEntries(asked().at(-1)?.query ?? [])).toEqual({
      limit: "50",
      subject_kind: "job",
      subject_id: "01935000-0000-7000-8000-000000009001",
      unread: "true",
    });
    expect(
      screen.getByText("tidegate notices --object job/01935000-0000-7000-8000-000000009001 --unread"),
    ).toBeInTheDocument();
    await user.click(screen.getByRole("button", { name: "Show all objects" }));
    await user.click(screen.getByRole("combobox", { name: "Event" }));
    await user.click(await screen.findByRole("option", { name: "Quota changed" }));
    expect(await screen.findByText("No notice matches these filters.")).toBeInTheDocument();
  });

  // Against: all are marked, with those that nobody has seen.
  it("marks one as read, and all up to the newest that is shown", async () => {
    const company = aCompany();
    const { user, requests } = open("/notices", { company });
    const [, second] = await screen.findAllByRole("button", { name: /^Mark as read: / });
    await user.click(second as HTMLElement);
    await waitFor(() => expect(screen.getByRole("button", { name: "Notices, 2 unread" })).toBeInTheDocument());
    expect(company.notices.map(({ read_at }) => read_at === null)).toEqual([true, false, true, false, false, false]);
    await user.click(screen.getByRole("button", { name: "Mark all as read" }));
    await waitFor(() => expect(screen.getByRole("button", { name: "Notices" })).toBeInTheDocument());
    expect(requests.find(({ method, path }) => method === "POST" && path.endsWith("/notices/read"))?.body).toEqual({
      through: company.notices[0]?.id,
    });
  });

  // Against: a number without its page.
  it("links each figure of a week to its page", async () => {
    const { user, router } = open("/notices");
    const waits = await screen.findByRole("link", { name: "41m20s" });
    expect(waits).toHaveAttribute(
      "href",
      "/tree/01935000-0000-7000-8000-000000000013/history?pool=h100&from=2026-11-16&to=2026-11-23",
    );
    await user.click(waits);
    await waitFor(() => expect(router.state.location.search).toMatchObject({ from: "2026-11-16", to: "2026-11-23" }));
  });

  it("says that there are none", async () => {
    open("/notices", { company: aCompany({ notices: [] }) });
    expect(await screen.findByText("No notices yet.")).toBeInTheDocument();
    expect(screen.queryByRole("button", { name: "Mark all as read" })).toBeNull();
  });
});

describe("bell", () => {
  // Against: the list is read on every page, before anybody opens it.
  it("counts what is unread, and shows the latest when it is opened", async () => {
    const { user, requests } = open("/audit");
    const bell = await screen.findByRole("button", { name: "Notices, 3 unread" });
    expect(bell).toHaveTextContent("3");
    expect(requests.filter(({ path }) => path.endsWith("/notices"))).toEqual([]);
    await user.click(bell);
    const latest = await screen.findByRole("dialog", { name: "Notices, 3 unread" });
    expect(await within(latest).findAllByRole("listitem")).toHaveLength(6);
    expect(await accessibilityFaults(latest)).toEqual([]);
    await user.click(within(latest).getByRole("link", { name: PREEMPTED }));
    expect(await screen.findByRole("button", { name: "Notices, 2 unread" })).toBeInTheDocument();
    await waitFor(() => expect(screen.getByRole("heading", { level: 1 })).not.toHaveTextContent("Audit log"));
    expect(screen.queryByRole("dialog")).toBeNull();
    expect(requests.some(({ path }) => path === "/api/v1/jobs/01935000-0000-7000-8000-000000009001")).toBe(true);
  });

  it("leads to all notices, and marks all as read", async () => {
    const { user } = open("/audit");
    await user.click(await screen.findByRole("button", { name: "Notices, 3 unread" }));
    await user.click(await screen.findByRole("button", { name: "Mark all as read" }));
    expect(await screen.findByRole("button", { name: "Notices" })).toBeInTheDocument();
    await user.click(screen.getByRole("link", { name: "All notices" }));
    expect(await screen.findByRole("heading", { level: 1, name: "Notices" })).toBeInTheDocument();
  });
});
