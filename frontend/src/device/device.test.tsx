import { screen, waitFor, within } from "@testing-library/react";
import { describe, expect, it } from "vitest";

import { accessibilityFaults, open } from "../test/render";

describe("a login of a machine", () => {
  it("is shown with the machine, the address and the rights, and approved", async () => {
    const { user, container, requests } = open("/device");
    await user.type(await screen.findByRole("textbox", { name: "Code" }), "wdjb-mjht");
    await user.click(screen.getByRole("button", { name: "Continue" }));
    const facts = await screen.findByRole("table", { name: "The login" });
    expect(within(facts).getByRole("row", { name: /^Machine/ })).toHaveTextContent("login-node-2");
    expect(within(facts).getByRole("row", { name: /^Address/ })).toHaveTextContent("198.51.100.20");
    expect(within(facts).getByRole("row", { name: /^May/ })).toHaveTextContent("jobs, read");
    expect(within(facts).getByRole("row", { name: /^Token lives/ })).toHaveTextContent("30 days");
    expect(screen.getByRole("note")).toHaveTextContent("from another address than yours");
    expect(await accessibilityFaults(container)).toEqual([]);
    await user.click(screen.getByRole("button", { name: "Approve" }));
    expect(await screen.findByText(/The machine is logged in/)).toBeInTheDocument();
    expect(requests.some(({ path }) => path === "/api/v1/device-logins/wdjb-mjht/approve")).toBe(true);
  });

  it("is refused", async () => {
    const { user, requests } = open("/device?code=WDJB-MJHT");
    await user.click(await screen.findByRole("button", { name: "Refuse" }));
    expect(await screen.findByText(/The machine gets no token/)).toBeInTheDocument();
    await waitFor(() => expect(requests.some(({ path }) => path.endsWith("/refuse"))).toBe(true));
    expect(requests.some(({ path }) => path.endsWith("/approve"))).toBe(false);
  });

  it("with a wrong code is nothing to approve", async () => {
    const { container } = open("/device?code=BCDF-GHJK");
    expect(await screen.findByRole("alert")).toHaveTextContent("No login with this code waits");
    expect(screen.queryByRole("button", { name: "Approve" })).toBeNull();
    expect(screen.getByRole("textbox", { name: "Code" })).toBeInTheDocument();
    expect(await accessibilityFaults(container)).toEqual([]);
  });
});
