import { screen, waitFor, within } from "@testing-library/react";
import { describe, expect, it } from "vitest";

import { accessibilityFaults, open } from "../test/render";
import { parametersOf, searchOfView } from "./savedViews";

const VISION = "ai-company/research/vision";

describe("saved views of the list of jobs", () => {
  /** Against: the names of the address, which the API refuses. */
  it("have the parameters of the API, and lead back to the same address", () => {
    const search = {
      scope: VISION,
      state: "queued,running",
      class: "high",
      runs_as: "borrowed",
      since: "2026-11-21T00:00:00Z",
      sort: "-gpus",
      columns: "state,gpus",
    } as const;
    const parameters = parametersOf(search);
    expect(parameters).toEqual({
      team: VISION,
      state: "queued,running",
      priority_class: "high",
      usage_class: "borrowed",
      submitted_at__gte: "2026-11-21T00:00:00Z",
      sort: "-gpus",
      columns: "state,gpus",
    });
    const back = Object.entries(searchOfView(parameters)).filter(([, value]) => value !== undefined);
    expect(Object.fromEntries(back)).toEqual(search);
  });

  it("are opened from the menu", async () => {
    const { user, router } = open("/jobs?user=bob");
    await user.click(await screen.findByRole("button", { name: "Views" }));
    await user.click(await screen.findByRole("menuitem", { name: /^large jobs/ }));
    await waitFor(() => expect(router.state.location.search).toMatchObject({ state: "running", sort: "-gpus" }));
    expect(router.state.location.search).not.toHaveProperty("user");
  });

  it("are saved with the filters of the list, and deleted after a question", async () => {
    const { user, requests } = open(`/jobs?state=failed&scope=${VISION}`);
    await user.click(await screen.findByRole("button", { name: "Views" }));
    await user.click(await screen.findByRole("menuitem", { name: "Save this view" }));
    const dialog = await screen.findByRole("dialog", { name: "Save this view" });
    await user.type(within(dialog).getByLabelText(/^Name/), "failures");
    expect(await accessibilityFaults(dialog)).toEqual([]);
    await user.click(within(dialog).getByRole("button", { name: "Save" }));
    await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
    const posted = requests.find(({ method, path }) => method === "POST" && path.endsWith("/job-views"));
    expect(posted?.body).toEqual({
      name: "failures",
      parameters: { team: VISION, state: "failed" },
      share_with: null,
    });
    await user.click(screen.getByRole("button", { name: "Views" }));
    await user.click(await screen.findByRole("menuitem", { name: "Delete mine" }));
    await user.click(await screen.findByRole("button", { name: "Delete it" }));
    await waitFor(() => expect(requests.some(({ method }) => method === "DELETE")).toBe(true));
  });
});
