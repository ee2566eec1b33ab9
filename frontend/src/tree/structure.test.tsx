import { screen, waitFor, within } from "@testing-library/react";
import { describe, expect, it } from "vitest";

import { aCompany } from "../../mock/answer.ts";
import { aSession, uuid } from "../../mock/company.ts";
import { accessibilityFaults, open } from "../test/render";
import { slugFromName } from "./StructureTab";

const RESEARCH = uuid(104);
const admin = () =>
  aCompany({
    session: aSession({ permissions: { "ai-company": ["view_tree", "manage_structure", "manage_members"] } }),
  });
const FILE = "kind,path\nteam,ai-company/research/robotics\n";

describe("the structure of a node", () => {
  it("lists the nodes below it, and leads to the structure of each", async () => {
    const { container } = open(`/tree/${RESEARCH}/structure`);
    const table = await screen.findByRole("table", { name: "Nodes below" });
    expect(within(table).getByRole("link", { name: "nlp" })).toHaveAttribute("href", `/tree/${uuid(105)}/structure`);
    expect(screen.getByRole("button", { name: "Move…" })).toBeInTheDocument();
    expect(screen.getByRole("button", { name: "Archive…" })).toBeInTheDocument();
    expect(await accessibilityFaults(container)).toEqual([]);
  });

  // Against: the path of the name although another one was typed.
  it("makes a team below it, with a path from its name", async () => {
    const { user, requests } = open(`/tree/${RESEARCH}/structure`);
    await user.click(await screen.findByRole("button", { name: "New department or team" }));
    await user.type(await screen.findByRole("textbox", { name: "Name" }), "Robot Arms");
    const path = screen.getByRole("textbox", { name: "Last part of its path" });
    expect(path).toHaveValue("robot-arms");
    await user.clear(path);
    await user.type(path, "arms{Enter}");
    await screen.findByText("ai-company/research/arms is created");
    expect(requests.filter(({ method }) => method === "POST").map(({ path, body }) => [path, body])).toEqual([
      ["/api/v1/teams", { parent: "ai-company/research", slug: "arms", name: "Robot Arms" }],
    ]);
  });

  it("renames it", async () => {
    const { user, requests } = open(`/tree/${RESEARCH}/structure`);
    await user.click(await screen.findByRole("button", { name: "Rename…" }));
    const name = await screen.findByRole("textbox", { name: "Name" });
    await user.clear(name);
    await user.type(name, "Science{Enter}");
    await screen.findByText("research is Science now");
    expect(requests.find(({ method }) => method === "PATCH")?.path).toBe(`/api/v1/departments/${RESEARCH}`);
  });

  it("shows a reader without the right neither buttons nor the import", async () => {
    const company = aCompany({ session: aSession({ permissions: { "ai-company": ["view_tree"] } }) });
    open(`/tree/${RESEARCH}/structure`, { company });
    await screen.findByRole("table", { name: "Nodes below" });
    expect(screen.queryByRole("button", { name: "New department or team" })).toBeNull();
    expect(screen.queryByText(/tidegate tree export/)).toBeNull();
    expect(screen.queryByRole("region", { name: "Export and import" })).toBeNull();
  });
});

describe("the import of a tree file", () => {
  // Against: Apply without the digest of the preview; an old preview beside changed text.
  it("previews the changes, and applies exactly these", async () => {
    const { user, requests, container } = open(`/tree/${RESEARCH}/structure`, { company: admin() });
    const text = await screen.findByRole("textbox", { name: "Or its text" });
    expect(screen.getByText("tidegate tree export --node ai-company/research")).toBeInTheDocument();
    await user.click(text);
    await user.paste(FILE);
    await user.click(screen.getByRole("button", { name: "Preview" }));
    const changes = await screen.findByRole("table", { name: "Changes" });
    expect(within(changes).getAllByRole("row")).toHaveLength(6);
    expect(screen.getByText("1 create · 1 move · 1 grant role · 1 invite · 1 change quota")).toBeInTheDocument();
    expect(screen.getByText(/^The file lacks 3 roles or invitations, which stay\./)).toBeInTheDocument();
    expect(await accessibilityFaults(container)).toEqual([]);
    await user.click(screen.getByRole("checkbox", { name: /Revoke roles/ }));
    expect(screen.queryByRole("table", { name: "Changes" })).toBeNull();
    await user.click(screen.getByRole("button", { name: "Preview" }));
    await user.click(await screen.findByRole("button", { name: "Apply 5 changes" }));
    await screen.findByText("5 changes applied");
    const applied = requests.find(({ headers }) => headers["if-match"] !== undefined);
    expect(applied?.headers["if-match"]).toBe('"d1"');
    expect(applied?.body).toEqual({ format: "csv", text: FILE, archive_missing: false, revoke_missing: true });
    await waitFor(() => expect(screen.queryByRole("table", { name: "Changes" })).toBeNull());
  });

  it("lists the errors of all lines, and offers nothing to apply", async () => {
    const { user } = open(`/tree/${RESEARCH}/structure`, { company: admin() });
    await user.click(await screen.findByRole("textbox", { name: "Or its text" }));
    await user.paste("team,nlp");
    await user.click(screen.getByRole("button", { name: "Preview" }));
    expect(await screen.findByRole("alert")).toHaveTextContent("1 error. Nothing can be applied");
    expect(screen.queryByRole("button", { name: /^Apply/ })).toBeNull();
  });
});

it("makes a path part from a name", () => {
  expect([slugFromName("Rival Lab"), slugFromName("  Ünï & Co. "), slugFromName("漢")]).toEqual(["rival-lab", "uni-co", ""]);
});
