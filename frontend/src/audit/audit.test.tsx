import { screen, waitFor } from "@testing-library/react";
import { describe, expect, it } from "vitest";

import { aCompany } from "../../mock/answer.ts";
import { aSession } from "../../mock/company.ts";
import { accessibilityFaults, open } from "../test/render";

const auditor = () => aCompany({ session: aSession({ permissions: { "ai-company": ["view_tree", "view_audit"] } }) });

describe("audit log", () => {
  it("lists who did what to what, and is linked for those who may read it", async () => {
    const { container } = open("/audit", { company: auditor() });
    const rows = await screen.findAllByRole("row");
    expect(rows.map((row) => row.textContent)).toEqual([
      "ActionActorObjectDetail",
      expect.stringMatching(/^team_renamed.*alice@ai-company.*team .*ai-company\/research\/nlpbefore: NLPafter: Language$/),
      expect.stringMatching(/^role_granted.*role: team_lead$/),
      expect.stringMatching(/^signed_in.*bob@ai-company/),
    ]);
    expect(screen.getByRole("link", { name: "Audit log" })).toBeInTheDocument();
    expect(await accessibilityFaults(container)).toEqual([]);
  });

  // Against: the object sent as one parameter; each letter asked for.
  it("is filtered from its fields, and so are its download and command", async () => {
    const { user, requests } = open("/audit?since=2026-11-01T00:00:00Z", { company: auditor() });
    await user.type(await screen.findByRole("textbox", { name: "Object" }), "team/0193{Enter}");
    await user.type(screen.getByRole("textbox", { name: "Actor" }), "alice@ai-company{Enter}");
    const asked = () => requests.filter(({ path }) => path.endsWith("/audit-events"));
    await waitFor(() => expect(asked().at(-1)?.query.get("actor")).toBe("alice@ai-company"));
    expect(asked()).toHaveLength(3);
    expect(Object.fromEntries(asked().at(-1)?.query ?? [])).toEqual({
      actor: "alice@ai-company",
      limit: "50",
      since: "2026-11-01T00:00:00Z",
      subject_id: "0193",
      subject_kind: "team",
    });
    expect(screen.getByRole("link", { name: "Download CSV" })).toHaveAttribute(
      "href",
      "/api/v1/audit-events?actor=alice%40ai-company&since=2026-11-01T00%3A00%3A00Z&subject_kind=team&subject_id=0193&format=csv",
    );
    expect(screen.getByText(/^tidegate audit --/)).toBeInTheDocument();
  });

  it("says whom it is for to everybody else, and asks nothing", async () => {
    const session = aSession({ permissions: { "ai-company": ["view_tree"] } });
    const { requests } = open("/audit", { company: aCompany({ session }) });
    expect(await screen.findByText(/for auditors and administrators/)).toBeInTheDocument();
    expect(screen.queryByRole("link", { name: "Audit log" })).toBeNull();
    expect(requests.filter(({ path }) => path.includes("audit"))).toEqual([]);
  });
});
