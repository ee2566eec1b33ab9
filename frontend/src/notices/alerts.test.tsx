import { screen, waitFor } from "@testing-library/react";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import { aCompany } from "../../mock/answer.ts";
import { aNotice } from "../../mock/notices.ts";
import { open } from "../test/render";

const SENTENCE = "bert is being preempted. Save its work before it stops.";
const inMinutes = (minutes: number) => new Date(Date.now() + minutes * 60_000).toISOString();
const shown = vi.fn();

class FakeNotification {
  static permission = "granted";
  static requestPermission = () => Promise.resolve("granted");
  onclick: (() => void) | null = null;
  constructor(sentence: string) {
    shown(sentence);
  }
}

beforeEach(() => vi.stubGlobal("Notification", FakeNotification));
afterEach(() => {
  shown.mockClear();
  localStorage.clear();
});

/** A page that is open while the notices arrive. */
async function arriving(...notices: Parameters<typeof aNotice>[2][]) {
  const company = aCompany({ notices: [] });
  const view = open("/audit", { company });
  await screen.findByRole("button", { name: "Notices" });
  await waitFor(() => expect(view.queryClient.getQueryData(["notices", "unread"])).toBe(0));
  company.notices.push(...notices.map((change, i) => aNotice(i, 0, { at: inMinutes(0), ...change })));
  await view.queryClient.invalidateQueries({ queryKey: ["notices"] });
  return view;
}

describe("notices that arrive while a page is open", () => {
  // Against: a toast that stays without a countdown; the link loads the whole portal anew.
  it("counts a preemption down in a toast that leads to the job", async () => {
    const { user, router } = await arriving({ event: "job_preempting", sentence: SENTENCE, deadline: inMinutes(5), link: "/budgets" });
    const link = await screen.findByRole("link", { name: SENTENCE });
    expect(screen.getByRole("timer")).toHaveTextContent(/^(5:00|4:5\d)$/);
    await user.click(link);
    await waitFor(() => expect(router.state.location.pathname).toBe("/budgets"));
    await waitFor(() => expect(screen.queryByRole("link", { name: SENTENCE })).toBeNull());
  });

  // Against: the toast comes with each hint.
  it("tells of each once, and not of what ended or was there before", async () => {
    const { queryClient } = await arriving(
      { event: "job_preempting", sentence: SENTENCE, deadline: inMinutes(5) },
      { event: "job_preempting", sentence: "old", at: inMinutes(-9), deadline: inMinutes(4) },
      { event: "job_preempting", sentence: "over", deadline: inMinutes(-1) },
    );
    expect(await screen.findAllByRole("timer")).toHaveLength(1);
    await queryClient.invalidateQueries({ queryKey: ["notices"] });
    expect(screen.getAllByRole("timer")).toHaveLength(1);
  });

  it("tells of a start by the browser, once the person allowed it", async () => {
    await arriving({ event: "job_started", sentence: "bert started." });
    await waitFor(() => expect(screen.getByRole("button", { name: "Notices, 1 unread" })).toBeInTheDocument());
    expect(shown).not.toHaveBeenCalled();
  });

  it("asks for the permission by a button, and takes it back", async () => {
    const { user } = open("/notices/preferences");
    await user.click(await screen.findByRole("button", { name: "Notify me when a job starts" }));
    await screen.findByRole("button", { name: "Turn notifications off" });
    const { unmount } = await arriving({ event: "job_started", sentence: "bert started." });
    await waitFor(() => expect(shown.mock.calls).toEqual([["bert started."]]));
    unmount();
    await user.click(screen.getByRole("button", { name: "Turn notifications off" }));
    expect(screen.getByRole("button", { name: "Notify me when a job starts" })).toBeInTheDocument();
  });

  it("says why a browser cannot", async () => {
    vi.stubGlobal("Notification", { permission: "denied" });
    open("/notices/preferences");
    expect(await screen.findByText(/Notifications are blocked/)).toBeInTheDocument();
    expect(screen.queryByRole("button", { name: "Notify me when a job starts" })).toBeNull();
  });
});
