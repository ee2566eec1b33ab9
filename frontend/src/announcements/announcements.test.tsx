import { screen, waitFor, within } from "@testing-library/react";
import { describe, expect, it } from "vitest";

import { anAnnouncement } from "../../mock/announcements.ts";
import { aCompany } from "../../mock/answer.ts";
import { aSession } from "../../mock/company.ts";
import { accessibilityFaults, open } from "../test/render";

const ROOT = aSession({ permissions: { "": ["view_tree", "manage_members", "manage_clusters"] } });

describe("announcements", () => {
  // Against: the order of their making, and a banner without its node.
  it("stand on top of each page, the heaviest first", async () => {
    const company = aCompany({
      announcements: [
        anAnnouncement(1, { text: "The guide is new." }),
        anAnnouncement(2, { text: "Rack 4 is moved.", level: "critical", node: "ai-company/research/nlp" }),
      ],
    });
    const { container } = open("/jobs", { company });
    const banners = within(await screen.findByRole("region", { name: "Announcements" }));
    expect(banners.getAllByRole("paragraph").map((banner) => banner.textContent)).toEqual([
      "▲ Critical ai-company/research/nlp: Rack 4 is moved.",
      "Info The guide is new.",
    ]);
    expect(await accessibilityFaults(container)).toEqual([]);
  });

  it("are made with a place and times", async () => {
    const { user, requests } = open("/announcements", { company: aCompany({ session: ROOT, announcements: [] }) });
    expect(await screen.findByText("No announcements.")).toBeInTheDocument();
    await user.click(screen.getByRole("button", { name: "New announcement" }));
    const dialog = within(await screen.findByRole("dialog", { name: "New announcement" }));
    await user.type(dialog.getByRole("textbox", { name: "Text" }), "Rack 4 is moved.");
    await user.click(dialog.getByRole("button", { name: "Announce" }));
    await waitFor(() =>
      expect(requests.find(({ method, path }) => method === "POST" && path.endsWith("/announcements"))?.body).toMatchObject({
        text: "Rack 4 is moved.",
        level: "info",
        start: null,
        end: null,
      }),
    );
    const table = within(await screen.findByRole("table", { name: "Announcements" }));
    expect(table.getByText("Rack 4 is moved.")).toBeInTheDocument();
  });

  // Against: a removal without a question; a button where I may not.
  it("are removed by people who may", async () => {
    const company = aCompany({
      announcements: [anAnnouncement(1, { text: "Mine." }), anAnnouncement(2, { text: "Theirs.", can_change: false })],
    });
    const { user, container } = open("/announcements", { company });
    await user.click(await screen.findByRole("button", { name: "Remove: Mine." }));
    expect(screen.queryByRole("button", { name: "Remove: Theirs." })).toBeNull();
    const dialog = within(await screen.findByRole("dialog", { name: "Remove the announcement?" }));
    await user.click(dialog.getByRole("button", { name: "Remove" }));
    await waitFor(() => expect(company.announcements.map(({ text }) => text)).toEqual(["Theirs."]));
    expect(screen.getByText("tidegate announcements list")).toBeInTheDocument();
    expect(await accessibilityFaults(container)).toEqual([]);
  });
});
