import { screen, waitFor, within } from "@testing-library/react";
import { describe, expect, it } from "vitest";

import { aCompany } from "../../mock/answer.ts";
import { aSession, uuid } from "../../mock/company.ts";
import { theMemberTotals } from "../../mock/members.ts";
import type { MockRequest } from "../../mock/http.ts";
import { accessibilityFaults, open } from "../test/render";
import { endOfDay, lastDayOf } from "./RoleFields";

const NLP = uuid(105);
const lead = () =>
  aCompany({
    session: aSession({
      permissions: { "ai-company/research/nlp": ["view_tree", "manage_members", "submit_jobs", "view_jobs"] },
    }),
  });

describe("the pages of a node", () => {
  // Planted: the tab Changes without its scope.
  it("name the node, its place, and lead to its other pages with it as the scope", async () => {
    open(`/tree/${NLP}/members`);
    expect(await screen.findByRole("heading", { name: "nlp", level: 1 })).toBeInTheDocument();
    const tabs = within(screen.getByRole("navigation", { name: "Pages of ai-company/research/nlp" }));
    expect(tabs.getByRole("link", { name: "Members" })).toHaveAttribute("aria-current", "page");
    expect(tabs.getByRole("link", { name: "Now" })).toHaveAttribute(
      "href",
      "/quotas?scope=ai-company/research/nlp&node=ai-company/research/nlp",
    );
    expect(tabs.getByRole("link", { name: "History" })).toHaveAttribute("href", `/tree/${NLP}/history`);
    expect(tabs.getByRole("link", { name: "Policy" })).toHaveAttribute(
      "href",
      "/policy?organization=ai-company&scope=ai-company/research/nlp",
    );
    expect(tabs.getByRole("link", { name: "Changes" })).toHaveAttribute(
      "href",
      "/quota-changes?scope=ai-company/research/nlp",
    );
    expect(screen.getByRole("link", { name: "research" })).toHaveAttribute("href", `/tree/${uuid(104)}/members`);
  });

  it("begin with the members", async () => {
    const { router } = open(`/tree/${NLP}`);
    expect(await screen.findByRole("heading", { name: "nlp", level: 1 })).toBeInTheDocument();
    expect(router.state.location.pathname).toBe(`/tree/${NLP}/members`);
  });

  it("say that an unknown node does not exist", async () => {
    open(`/tree/${uuid(999)}/members`);
    expect(await screen.findByText(/no such organization, department or team/)).toBeInTheDocument();
  });

  it("are linked from the quota of the node", async () => {
    open("/quotas?pool=h100&node=ai-company/research/nlp");
    const link = await screen.findByRole("link", { name: "Members and history of nlp" });
    expect(link).toHaveAttribute("href", `/tree/${NLP}/members`);
  });
});

describe("the caps of members", () => {
  // Against: a second cap of a person who has one.
  it("are set by those who manage the quota of the team", async () => {
    const company = aCompany({
      session: aSession({ permissions: { "ai-company/research/nlp": ["view_tree", "manage_members", "manage_quota"] } }),
    });
    const { user, requests } = open(`/tree/${NLP}/members`, { company });
    await user.click(await screen.findByRole("button", { name: "Set the cap of ana@ai-company" }));
    await user.type(await screen.findByRole("textbox", { name: "GPUs at once" }), "16{Enter}");
    await waitFor(() => expect(requests.find(({ method }) => method === "POST")?.body).toEqual({
      team: "ai-company/research/nlp",
      user: "ana",
      pool: "h100",
      cap_mgpu: 16_000,
    }));
  });
});

describe("the service accounts of a node", () => {
  // Against: the name of spaces instead of none.
  it("are made, and deactivated after their jobs are shown", async () => {
    const { user, requests } = open(`/tree/${NLP}/members`, { company: lead() });
    await user.click(await screen.findByRole("button", { name: "New service account" }));
    await user.type(await screen.findByRole("textbox", { name: "Username" }), "ci{Enter}");
    await screen.findByText("ci@ai-company is created. Give it a token next.");
    expect(requests.find(({ path }) => path.endsWith("/service-accounts"))?.body).toEqual({ username: "ci", name: null });
    const services = screen.getByRole("table", { name: "Service accounts" });
    const [first] = within(services).getAllByRole("button", { name: /^Deactivate / });
    await user.click(first as HTMLElement);
    expect(await screen.findByRole("dialog", { name: /^Deactivate .*\?$/ })).toBeInTheDocument();
  });
});

describe("the members of a node", () => {
  // Planted: service accounts among the people; the total without one row; no group of a role.
  it("are people, service accounts and inherited roles, with sums that equal the node's use", async () => {
    const { container } = open(`/tree/${NLP}/members`, { company: lead() });
    const people = await screen.findByRole("table", { name: "People" });
    expect(within(people).getAllByRole("row")).toHaveLength(7);
    expect(within(people).getByRole("row", { name: /^ana@ai-company/ })).toHaveTextContent(/ago11212041,280.0044 %Edit$/);
    expect(within(people).getByRole("row", { name: /^People, total/ })).toHaveTextContent(/20087,770.0093.6 %/);
    expect(within(people).getByRole("row", { name: /^sam@ai-company/ })).toHaveTextContent(/expires in 3 d/);
    expect(within(people).getByRole("row", { name: /^leo@ai-company/ })).toHaveTextContent(/team lead ?from group gpu-leads/);
    expect(within(people).getAllByText(/^from group/)).toHaveLength(1);
    expect(within(people).getByRole("img", { name: "0 guaranteed, 32 borrowed, cap 64" })).toBeInTheDocument();
    const services = screen.getByRole("table", { name: "Service accounts" });
    expect(within(services).getAllByRole("row")).toHaveLength(4);
    const inherited = screen.getByRole("table", { name: "Inherited roles" });
    expect(within(inherited).getByRole("row", { name: /^dora@ai-company/ })).toHaveTextContent("department admin in ai-company/research");
    expect(screen.getByText("✓ equals the usage of nlp")).toBeInTheDocument();
    expect(screen.getByText("tidegate members list ai-company/research/nlp")).toBeInTheDocument();
    expect(screen.getByRole("link", { name: "CSV" })).toHaveAttribute("href", `/api/v1/tree/${NLP}/members?format=csv`);
    expect(await accessibilityFaults(container)).toEqual([]);
  });

  it("say so when the sums are not the node's use", async () => {
    open(`/tree/${NLP}/members`, {
      company: lead(),
      override: ({ path }) =>
        path.endsWith("/member-totals")
          ? { status: 200, body: { ...theMemberTotals("ai-company/research/nlp"), is_equal: false } }
          : undefined,
    });
    expect(await screen.findByText(
      "▲ differs from the scheduler's sums for nlp. Reload in a minute. If the difference stays, tell an administrator.",
    )).toBeInTheDocument();
  });

  // Planted: all fields sent with each change.
  it("get another role and an end, based on the version that was read", async () => {
    const sent: MockRequest[] = [];
    const { user } = open(`/tree/${NLP}/members`, {
      company: lead(),
      override: (request) => {
        if (request.method === "PATCH") sent.push(request);
        return undefined;
      },
    });
    await user.click(await screen.findByRole("button", { name: "Edit noor@ai-company" }));
    const dialog = within(await screen.findByRole("dialog"));
    await user.type(dialog.getByLabelText("Last day"), "2026-12-31");
    await user.click(dialog.getByRole("button", { name: "Save" }));
    await waitFor(() => expect(sent).toHaveLength(1));
    expect(sent[0]?.body).toEqual({ expires_at: endOfDay("2026-12-31") });
    expect(sent[0]?.headers["if-match"]).toBe('"v1"');
  });

  it("lose a role after a question that says what becomes of their jobs", async () => {
    const { user, requests } = open(`/tree/${NLP}/members`, { company: lead() });
    await user.click(await screen.findByRole("button", { name: "Edit noor@ai-company" }));
    const dialog = within(await screen.findByRole("dialog"));
    expect(dialog.getByText(/Jobs of noor@ai-company use 48 here. Jobs that run or wait go on/)).toBeInTheDocument();
    await user.click(dialog.getByRole("button", { name: "Remove…" }));
    await user.click(dialog.getByRole("button", { name: "Remove the role" }));
    await waitFor(() => expect(requests.some(({ method }) => method === "DELETE")).toBe(true));
  });

  // Planted: every role is offered.
  it("are added with a role that the reader has, explained in one sentence", async () => {
    const { user, requests } = open(`/tree/${NLP}/members`, { company: lead() });
    await user.click(await screen.findByRole("button", { name: "Add a member" }));
    const dialog = within(await screen.findByRole("dialog"));
    expect(await dialog.findByText("Submits jobs, and sees and manages the own ones.")).toBeInTheDocument();
    await user.click(dialog.getByRole("combobox", { name: "Role" }));
    expect((await screen.findAllByRole("option")).map((option) => option.textContent)).toEqual(["team lead", "researcher"]);
    await user.click(screen.getByRole("option", { name: "researcher" }));
    await user.click(dialog.getByRole("combobox", { name: "Account" }));
    await user.click(await screen.findByRole("option", { name: /^bob@ai-company/ }));
    await user.click(dialog.getByRole("button", { name: "Add" }));
    await waitFor(() => expect(requests.some(({ method }) => method === "POST")).toBe(true));
    expect(requests.find(({ method }) => method === "POST")?.body).toEqual({
      user: "bob@ai-company",
      role: "researcher",
      node: "ai-company/research/nlp",
      expires_at: null,
    });
  });

  // Planted: empty fields sent as texts.
  it("are invited by mail address, and the link is shown this once", async () => {
    const { user, requests } = open(`/tree/${NLP}/members`, { company: lead() });
    await user.click(await screen.findByText("Invite by mail address"));
    await user.type(screen.getByRole("textbox", { name: "Mail address" }), "eve@example.org");
    await user.click(screen.getByRole("button", { name: "Invite" }));
    expect(await screen.findByText(/Hand this link to eve@example.org/)).toBeInTheDocument();
    expect(screen.getByText(/set-password#tdi_exampleOnly$/)).toBeInTheDocument();
    expect(requests.find(({ method }) => method === "POST")?.body).toEqual({
      email: "eve@example.org",
      role: "researcher",
      role_expires_at: null,
    });
  });

  it("are invited again, or not at all", async () => {
    const { user, requests } = open(`/tree/${NLP}/members`, { company: lead() });
    await user.click(await screen.findByRole("button", { name: "Send again to paul@ai-company.example" }));
    expect(await screen.findByText(/Hand this link to paul@ai-company.example/)).toBeInTheDocument();
    await user.click(screen.getByRole("button", { name: "Withdraw the invitation of paul@ai-company.example" }));
    const question = within(await screen.findByRole("dialog", { name: "Withdraw the invitation?" }));
    expect(question.getByText("The link sent to paul@ai-company.example stops working.")).toBeVisible();
    await user.click(question.getByRole("button", { name: "Withdraw" }));
    await waitFor(() => expect(requests.some(({ method }) => method === "DELETE")).toBe(true));
  });

  it("are not asked for by others", async () => {
    const session = aSession({ permissions: { "ai-company": ["view_tree"] } });
    const { requests } = open(`/tree/${NLP}/members`, { company: aCompany({ session }) });
    expect(await screen.findByText(/shown to those who manage them/)).toBeInTheDocument();
    expect(requests.filter(({ path }) => path.includes("member"))).toEqual([]);
  });

  it("have roles that end with a day, in the reader's zone", () => {
    expect(lastDayOf(endOfDay("2026-12-31"))).toBe("2026-12-31");
    expect(endOfDay("")).toBeNull();
  });
});
