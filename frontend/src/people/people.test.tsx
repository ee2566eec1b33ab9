import { screen, waitFor, within } from "@testing-library/react";
import { afterEach, describe, expect, it, vi } from "vitest";

import { aCompany } from "../../mock/answer.ts";
import { aSession, theUsers, uuid } from "../../mock/company.ts";
import { accessibilityFaults, open, type Override } from "../test/render";

const ADMIN = aSession({ permissions: { "ai-company": ["view_tree", "manage_members"] } });

afterEach(() => {
  vi.unstubAllGlobals();
  globalThis.history.replaceState(null, "", "/");
});

describe("people", () => {
  it("makes a password link and shows it once", async () => {
    const { user, container } = open("/people", { company: aCompany({ session: ADMIN }) });
    const row = await screen.findByRole("row", { name: /bob@ai-company/ });
    expect(within(screen.getByRole("row", { name: /ci@ai-company/ })).queryByRole("button", { name: "Password link" })).toBeNull();
    expect(await accessibilityFaults(container)).toEqual([]);
    await user.click(within(row).getByRole("button", { name: "Password link" }));
    await user.click(await screen.findByRole("button", { name: "Make the link" }));
    expect(await screen.findByText(/\/set-password#tdl_exampleOnly$/)).toBeInTheDocument();
    await user.keyboard("{Escape}");
    await waitFor(() => expect(screen.queryByText(/tdl_exampleOnly/)).toBeNull());
  });

  it("makes, replaces and revokes tokens of a service account", async () => {
    const { user, requests } = open("/people?user=ci@ai-company", { company: aCompany({ session: ADMIN }) });
    const table = await screen.findByRole("table", { name: "Tokens of ci@ai-company" });
    await user.click(within(table).getByRole("button", { name: "Replace" }));
    await user.click(within(await screen.findByRole("dialog")).getByRole("button", { name: "Replace" }));
    expect(await screen.findByText("tdg_9fK2exampleOnlyNotAToken")).toBeInTheDocument();
    const sent = requests.find(({ path }) => path.endsWith("/rotate"));
    expect(sent?.body).toEqual({ overlap_s: 0 });
    await user.click(screen.getByRole("button", { name: "New token" }));
    await user.type(await screen.findByRole("textbox", { name: "Name" }), "nightly");
    await user.click(screen.getByRole("button", { name: "Create" }));
    await waitFor(() =>
      expect(requests.find(({ path, method }) => path === "/api/v1/tokens" && method === "POST")?.body).toMatchObject({
        name: "nightly",
        user: "ci@ai-company",
      }),
    );
  });

  it("only revokes tokens of another person", async () => {
    open("/people?user=bob@ai-company", { company: aCompany({ session: ADMIN }) });
    const table = await screen.findByRole("table", { name: "Tokens of bob@ai-company" });
    expect(within(table).getByRole("button", { name: "Revoke" })).toBeInTheDocument();
    expect(within(table).queryByRole("button", { name: "Replace" })).toBeNull();
    expect(screen.queryByRole("button", { name: "New token" })).toBeNull();
  });
});

describe("deactivating somebody", () => {
  const bob = theUsers()[0];
  const address = `/api/v1/users/${bob?.id}/deactivate`;
  const job = { id: uuid(77), name: "bert", team: "ai-company/research/nlp", user: "bob", state: "running" };
  const override: Override = ({ method, path }) =>
    path === address && method === "GET"
      ? { status: 200, body: { running: 1, waiting: 2, running_jobs: [job] } }
      : undefined;

  // Planted: the button enabled before it is said what becomes of running jobs.
  it("shows what runs and waits, and asks what becomes of it", async () => {
    const { user, requests } = open("/people", { company: aCompany({ session: ADMIN }), override });
    const row = await screen.findByRole("row", { name: /bob@ai-company/ });
    await user.click(within(row).getByRole("button", { name: "Deactivate…" }));
    const dialog = await screen.findByRole("dialog", { name: "Deactivate bob@ai-company?" });
    const jobs = await within(dialog).findByRole("table", { name: "Running jobs" });
    expect(within(jobs).getByRole("row", { name: "bert ai-company/research/nlp bob running" })).toBeInTheDocument();
    expect(within(dialog).getByRole("radiogroup", { name: "2 waiting jobs" })).toBeInTheDocument();
    expect(await accessibilityFaults(dialog)).toEqual([]);
    const deactivate = within(dialog).getByRole("button", { name: "Deactivate" });
    await user.click(within(dialog).getByRole("radio", { name: "Wait until the reactivation" }));
    expect(deactivate).toBeDisabled();
    expect(dialog).toHaveTextContent("tidegate user deactivate bob@ai-company --waiting wait");
    await user.click(within(dialog).getByRole("radio", { name: "Cancel, with grace" }));
    expect(dialog).toHaveTextContent("tidegate user deactivate bob@ai-company --running cancel --waiting wait");
    await user.click(deactivate);
    await screen.findByText("bob@ai-company is deactivated");
    expect(requests.find(({ method, path }) => method === "POST" && path === address)?.body).toEqual({
      running: "cancel",
      waiting: "wait",
    });
  });

  // Planted: the words of a node, where jobs wait "there".
  it("says that nothing of theirs runs or waits", async () => {
    const idle: Override = ({ method, path }) =>
      path === address && method === "GET"
        ? { status: 200, body: { running: 0, waiting: 0, running_jobs: [] } }
        : undefined;
    const { user } = open("/people", { company: aCompany({ session: ADMIN }), override: idle });
    const row = await screen.findByRole("row", { name: /bob@ai-company/ });
    await user.click(within(row).getByRole("button", { name: "Deactivate…" }));
    const dialog = await screen.findByRole("dialog", { name: "Deactivate bob@ai-company?" });
    await within(dialog).findByText("None of their jobs runs or waits.");
  });

  it("is undone from the list, which says who is deactivated", async () => {
    const { user, requests } = open("/people", { company: aCompany({ session: ADMIN }) });
    const row = await screen.findByRole("row", { name: /eve@ai-company deactivated/ });
    expect(within(row).queryByRole("button", { name: "Deactivate…" })).toBeNull();
    await user.click(within(row).getByRole("button", { name: "Reactivate" }));
    await screen.findByText("eve@ai-company is active");
    expect(requests.find(({ method }) => method === "PATCH")?.body).toEqual({ is_active: true });
  });

  // Planted: offered for oneself; offered to those who only read.
  it("is offered neither for oneself nor to auditors", async () => {
    const session = aSession({ permissions: { "ai-company": ["view_tree", "view_audit"] } });
    const first = open("/people", { company: aCompany({ session }) });
    await screen.findByRole("row", { name: /bob@ai-company/ });
    expect(screen.queryByRole("button", { name: "Deactivate…" })).toBeNull();
    first.unmount();
    const own = { ...ADMIN, user: { ...ADMIN.user, id: bob?.id ?? "", login: "bob@ai-company" } };
    open("/people", { company: aCompany({ session: own }) });
    const row = await screen.findByRole("row", { name: /bob@ai-company/ });
    expect(within(row).queryByRole("button", { name: "Deactivate…" })).toBeNull();
    expect(screen.getAllByRole("button", { name: "Deactivate…" })).toHaveLength(1);
  });
});

describe("sessions", () => {
  it("are listed with this one, and ended", async () => {
    const { user, container, requests } = open("/access");
    const table = await screen.findByRole("table", { name: "My sessions" });
    const [, here, phone] = within(table).getAllByRole("row");
    expect(here).toHaveTextContent("Firefox on Linux this session");
    expect(within(here as HTMLElement).queryByRole("button")).toBeNull();
    expect(phone).toHaveTextContent("Safari on iPhone");
    expect(await accessibilityFaults(container)).toEqual([]);
    await user.click(within(phone as HTMLElement).getByRole("button", { name: "End the session on Safari on iPhone" }));
    expect(await screen.findByText("The session on Safari on iPhone has ended")).toBeInTheDocument();
    expect(requests.find(({ method }) => method === "DELETE")?.path).toBe(`/api/v1/sessions/${uuid(92)}`);
    await user.click(screen.getByRole("button", { name: "End all others" }));
    await user.click(await screen.findByRole("button", { name: "End them" }));
    expect(await screen.findByText("1 session has ended")).toBeInTheDocument();
    expect(requests.find(({ path }) => path === "/api/v1/sessions/end")?.body).toEqual({ user: null });
  });

  it("of another person are all ended", async () => {
    const { user, requests } = open("/people?user=bob@ai-company", { company: aCompany({ session: ADMIN }) });
    const table = await screen.findByRole("table", { name: "Sessions of bob@ai-company" });
    expect(within(table).queryByText("this session")).toBeNull();
    await user.click(screen.getByRole("button", { name: "End all" }));
    await user.click(await screen.findByRole("button", { name: "End them" }));
    await waitFor(() =>
      expect(requests.find(({ path }) => path === "/api/v1/sessions/end")?.body).toEqual({ user: "bob@ai-company" }),
    );
  });
});

describe("passwords", () => {
  it("are changed with the old one", async () => {
    const { user, container, requests } = open("/access");
    await user.type(await screen.findByLabelText("Old password"), "wrong");
    await user.type(screen.getByLabelText("New password"), "a long new password");
    const button = screen.getByRole("button", { name: "Change password" });
    expect(button).toBeDisabled();
    await user.type(screen.getByLabelText("New password again"), "a long new password");
    await user.click(button);
    expect(await screen.findByText("is wrong")).toBeInTheDocument();
    expect(await accessibilityFaults(container)).toEqual([]);
    await user.clear(screen.getByLabelText("Old password"));
    await user.type(screen.getByLabelText("Old password"), "right");
    await user.click(button);
    expect(await screen.findByText("The password is changed")).toBeInTheDocument();
    expect(requests.filter(({ path }) => path === "/api/v1/password").at(-1)?.body).toEqual({
      old_password: "right",
      new_password: "a long new password",
    });
  });

  it("that an administrator chose are changed before anything else", async () => {
    const session = aSession();
    const company = aCompany({ session: { ...session, user: { ...session.user, must_change_password: true } } });
    const { user, container, requests } = open("/jobs", { company });
    expect(await screen.findByRole("heading", { name: "Choose a password" })).toBeInTheDocument();
    expect(screen.queryByRole("navigation")).toBeNull();
    expect(requests.some(({ path }) => path === "/api/v1/jobs")).toBe(false);
    expect(await accessibilityFaults(container)).toEqual([]);
    await user.type(screen.getByLabelText("Old password"), "the first one");
    await user.type(screen.getByLabelText("New password"), "a long new password");
    await user.type(screen.getByLabelText("New password again"), "a long new password");
    await user.click(screen.getByRole("button", { name: "Change password" }));
    expect(await screen.findByRole("link", { name: "pretrain-13b" })).toBeInTheDocument();
  });

  it("are set with a link, whose secret goes into the body only", async () => {
    globalThis.history.replaceState(null, "", "/set-password#tdl_good");
    const { user, container, requests } = open("/set-password", { company: aCompany({ session: null }) });
    await user.type(await screen.findByLabelText("New password"), "a long new password");
    await user.type(screen.getByLabelText("New password again"), "a long new password");
    expect(await accessibilityFaults(container)).toEqual([]);
    await user.click(screen.getByRole("button", { name: "Set password" }));
    expect(await screen.findByText("bob@ai-company")).toBeInTheDocument();
    const [sent] = requests.filter(({ path }) => path.includes("password-links"));
    expect(sent?.body).toEqual({ secret: "tdl_good", password: "a long new password" });
    expect(sent?.path).toBe("/api/v1/password-links/use");
    expect(globalThis.location.hash).toBe("");
  });

  it("say that a used link works no more, and that half a link is none", async () => {
    globalThis.history.replaceState(null, "", "/set-password#used");
    const first = open("/set-password", { company: aCompany({ session: null }) });
    await first.user.type(await screen.findByLabelText("New password"), "a long new password");
    await first.user.type(screen.getByLabelText("New password again"), "a long new password");
    await first.user.click(screen.getByRole("button", { name: "Set password" }));
    expect(await screen.findByRole("alert")).toHaveTextContent("This link does not work");
    first.unmount();
    globalThis.history.replaceState(null, "", "/set-password");
    open("/set-password", { company: aCompany({ session: null }) });
    expect(await screen.findByRole("alert")).toHaveTextContent("This address is not complete.");
  });
});
