import { screen, waitFor, within } from "@testing-library/react";
import { describe, expect, it } from "vitest";

import { aCompany } from "../../mock/answer.ts";
import { thePreferences } from "../../mock/notices.ts";
import { accessibilityFaults, open } from "../test/render";

const changes = (requests: { method: string; body: unknown }[]) =>
  requests.filter(({ method }) => method === "PATCH").map(({ body }) => body);

describe("notice preferences", () => {
  it("shows each event by channel, and what differs from the default", async () => {
    const { container } = open("/notices/preferences");
    const table = await screen.findByRole("table", { name: "Events by channel" });
    expect(within(table).getAllByRole("row")).toHaveLength(23);
    expect(within(table).getAllByRole("row")[1]).toHaveTextContent("Job started · my choice");
    expect(screen.getByRole("checkbox", { name: "Job failed: mail" })).toBeChecked();
    expect(screen.getByRole("checkbox", { name: "Job succeeded: mail" })).not.toBeChecked();
    expect(screen.getByText("Mail goes to alice@ai-company.example.")).toBeInTheDocument();
    expect(await accessibilityFaults(container)).toEqual([]);
  });

  // Against: both channels are sent.
  it("saves a changed box at once", async () => {
    const { user, requests } = open("/notices/preferences");
    await user.click(await screen.findByRole("checkbox", { name: "Job succeeded: mail" }));
    await waitFor(() => expect(screen.getByRole("checkbox", { name: "Job succeeded: mail" })).toBeChecked());
    expect(changes(requests)).toEqual([{ events: [{ event: "job_ended", mail: true }] }]);
  });

  // Against: quiet hours that are switched off are sent as hours.
  it("changes digest, quiet hours and zone together", async () => {
    const { user, requests } = open("/notices/preferences");
    await user.click(await screen.findByRole("checkbox", { name: "Quiet hours" }));
    expect(screen.getByText("tidegate notify quiet off --zone Europe/Berlin")).toBeInTheDocument();
    expect(screen.getByText("tidegate notify digest none")).toBeInTheDocument();
    const zone = screen.getByRole("textbox", { name: "Time zone" });
    await user.clear(zone);
    await user.type(zone, "Asia/Tokyo");
    await user.click(screen.getByRole("button", { name: "Save" }));
    await waitFor(() => expect(changes(requests)).toHaveLength(1));
    expect(changes(requests)).toEqual([{ digest: "none", time_zone: "Asia/Tokyo", quiet_hours: null }]);
  });

  it("lists my mails with the answer of the server", async () => {
    open("/notices/preferences");
    const table = await screen.findByRole("table", { name: "Mails" });
    const rows = within(table).getAllByRole("row").slice(1);
    expect(rows.map((row) => row.textContent)).toEqual([
      expect.stringMatching(/^3 notices: llm-finetune failed.*sent1$/),
      expect.stringMatching(/550: 5.1.1 The mailbox.*failed6$/),
    ]);
  });

  it.each([
    [{ email: "" }, /an administrator must first store your email address/],
    [{ is_mail_configured: false }, /this installation has no mail server/],
  ])("says why no mail is sent: %o", async (change, sentence) => {
    open("/notices/preferences", { company: aCompany({ noticePreferences: { ...thePreferences(), ...change } }) });
    expect(await screen.findByText(sentence)).toBeInTheDocument();
  });
});
