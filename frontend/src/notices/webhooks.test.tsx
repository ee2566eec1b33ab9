import { screen, waitFor, within } from "@testing-library/react";
import { describe, expect, it } from "vitest";

import { accessibilityFaults, open } from "../test/render";

const CHANNEL = "01935000-0000-7000-8000-00000000e001";

describe("webhooks", () => {
  it("lists webhooks with their state", async () => {
    const { container } = open("/notices/webhooks");
    const table = await screen.findByRole("table", { name: "Webhooks" });
    const rows = within(table).getAllByRole("row").slice(1);
    expect(rows.map((row) => row.textContent)).toEqual([
      expect.stringMatching(/^Channel of nlp · slackai-company\/research\/nlp · .*Job failed, Job is being.*ok/),
      expect.stringMatching(/^On-call of the platform · signed.*fails since/),
      expect.stringMatching(/^My own messages · teamsmy notices · .*disabled No delivery succeeded for 24 hours\./),
    ]);
    expect(await accessibilityFaults(container)).toEqual([]);
  });

  // Against: the secret is not shown; the node is sent as an empty path.
  it("makes a webhook and shows its secret once", async () => {
    const { user, requests } = open("/notices/webhooks");
    await user.click(await screen.findByRole("button", { name: "New webhook" }));
    const form = await screen.findByRole("dialog", { name: "New webhook" });
    await user.type(within(form).getByRole("textbox", { name: "Name" }), "mine");
    await user.type(within(form).getByRole("textbox", { name: "Address" }), "https://h.example.org/x");
    await user.click(within(form).getByRole("combobox", { name: "Kind" }));
    await user.click(await screen.findByRole("option", { name: /^Signed JSON/ }));
    await user.click(within(form).getByRole("button", { name: "Create" }));
    expect(await screen.findByText("whsec_c2VjcmV0")).toBeInTheDocument();
    expect(requests.find(({ method }) => method === "POST")?.body).toEqual({
      name: "mine",
      kind: "signed",
      url: "https://h.example.org/x",
      events: ["job_failed", "job_preempting"],
      node: null,
    });
    await user.click(screen.getByRole("button", { name: "I have it" }));
    expect(screen.queryByText("whsec_c2VjcmV0")).toBeNull();
  });

  it("shows the messages after a test, and sends one again", async () => {
    const { user, requests } = open("/notices/webhooks");
    await user.click(await screen.findByRole("button", { name: "Test: Channel of nlp" }));
    const table = await screen.findByRole("table", { name: "Messages to Channel of nlp" });
    const rows = within(table).getAllByRole("row").slice(1);
    expect(rows.map((row) => row.textContent)).toEqual([
      expect.stringMatching(/^llm-finetune is being preempted.*oksent200212 ms1Send again$/),
      expect.stringMatching(/^llm-finetune failed.*The server answered 503\..*waits5035012 ms3$/),
    ]);
    await user.click(within(table).getByRole("button", { name: /^Send again/ }));
    await waitFor(() => expect(requests.some(({ path }) => path.endsWith("/replay"))).toBe(true));
    expect(requests.some(({ path }) => path.endsWith(`/${CHANNEL}/test`))).toBe(true);
  });

  // Against: a webhook is removed without being asked for.
  it("asks before it removes", async () => {
    const { user, requests } = open("/notices/webhooks");
    await user.click(await screen.findByRole("button", { name: "Remove: Channel of nlp" }));
    const asked = await screen.findByRole("dialog", { name: "Remove Channel of nlp?" });
    expect(requests.some(({ method }) => method === "DELETE")).toBe(false);
    await user.click(within(asked).getByRole("button", { name: "Remove" }));
    await waitFor(() => expect(requests.some(({ method }) => method === "DELETE")).toBe(true));
  });

  it("enables a disabled webhook on its version", async () => {
    const { user, requests } = open("/notices/webhooks");
    await user.click(await screen.findByRole("button", { name: "Enable: My own messages" }));
    await waitFor(() => expect(requests.find(({ method }) => method === "PATCH")?.body).toEqual({ is_enabled: true }));
  });
});
