import { screen, waitFor, within } from "@testing-library/react";
import { describe, expect, it } from "vitest";

import { aCompany } from "../../mock/answer";
import { aSession } from "../../mock/company";
import { accessibilityFaults, open } from "../test/render";

describe("the dialog that goes to pages, jobs and nodes", () => {
  it("opens by Ctrl+K, while somebody types too, and goes to a page by a few letters", async () => {
    const { user, router } = open("/jobs");
    await screen.findByRole("heading", { name: "Jobs" });
    await user.keyboard("/");
    expect(document.activeElement).toHaveAttribute("data-search");
    await user.keyboard("{Control>}k{/Control}");
    const dialog = await screen.findByRole("dialog");
    expect(within(dialog).getByText("Chargeback")).toBeInTheDocument();
    await user.keyboard("plan chan");
    await waitFor(() => expect(within(dialog).queryByText("Chargeback")).toBeNull());
    await user.keyboard("{ArrowDown}{Enter}");
    await waitFor(() => expect(router.state.location.pathname).toBe("/quota-changes"));
    await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
  });

  it("finds jobs of the server, nodes of the tree and parts of the guide", async () => {
    const { user, router, requests } = open("/");
    await user.click(await screen.findByRole("button", { name: /^Go to/ }));
    const dialog = await screen.findByRole("dialog");
    await user.keyboard("vision");
    await within(dialog).findByText("ai-company/research/vision");
    expect(await accessibilityFaults(dialog)).toEqual([]);
    const asked = () => requests.flatMap(({ path, query }) => (path === "/api/v1/jobs" ? (query.get("q") ?? []) : []));
    await waitFor(() => expect(asked()).toEqual(["vision"]));
    await user.click(within(dialog).getByText("ai-company/research/vision"));
    await waitFor(() => expect(router.state.location).toMatchObject({ pathname: "/quotas", search: { node: "ai-company/research/vision" } }));
  });

  it("says so when nothing has the name, and shows only pages that a person may open", async () => {
    const { user } = open("/", { company: aCompany({ session: aSession({ permissions: {} }) }) });
    await user.click(await screen.findByRole("button", { name: /^Go to/ }));
    const dialog = await screen.findByRole("dialog");
    expect(within(dialog).queryByText("Periods")).toBeNull();
    await user.keyboard("zzzzqq");
    expect(await within(dialog).findByText("Nothing has this name. Try fewer letters.")).toBeInTheDocument();
  });
});
