import { screen, waitFor, within } from "@testing-library/react";
import { describe, expect, it } from "vitest";

import { aCompany } from "../../mock/answer.ts";
import { aSession } from "../../mock/company.ts";
import { accessibilityFaults, open } from "../test/render";

const company = aCompany({
  session: aSession({ permissions: { "": ["view_tree", "manage_members", "manage_clusters", "manage_structure"] } }),
});
const TREE = "kind,path,name\nteam,blue-whale/nlp,NLP\n";

describe("organizations", () => {
  it("are listed with their settings and counts", async () => {
    const { container } = open("/organizations", { company });
    const table = await screen.findByRole("table", { name: "Organizations" });
    const row = within(table).getByRole("row", { name: /^AI Company/ });
    expect(row).toHaveTextContent("Europe/BerlinEUR42121,000 GPUs h1007 running");
    expect(within(table).getByRole("row", { name: /^Rival Lab archived/ })).toHaveTextContent("–");
    expect(await accessibilityFaults(container)).toEqual([]);
  });

  // Against: archived ones offered to be archived again.
  it("are renamed and archived", async () => {
    const { user, requests } = open("/organizations", { company });
    await user.click(await screen.findByRole("button", { name: "Rename ai-company…" }));
    const dialog = await screen.findByRole("dialog", { name: "Rename ai-company" });
    await user.clear(within(dialog).getByRole("textbox", { name: /^Name/ }));
    await user.type(within(dialog).getByRole("textbox", { name: /^Name/ }), "AI Inc.");
    await user.click(within(dialog).getByRole("button", { name: "Rename" }));
    await waitFor(() => expect(requests.find(({ method }) => method === "PATCH")?.body).toEqual({ name: "AI Inc." }));
    expect(screen.getByRole("button", { name: "Archive ai-company…" })).toBeInTheDocument();
    expect(screen.queryByRole("button", { name: "Archive rival-lab…" })).toBeNull();
  });

  it("are for platform administrators", async () => {
    open("/organizations");
    expect(await screen.findByRole("heading", { name: "Only for platform administrators" })).toBeInTheDocument();
  });
});

describe("a new organization", () => {
  const typing = (user: ReturnType<typeof open>["user"]) => async (name: RegExp, text: string) => {
    const box = screen.getByRole("textbox", { name });
    await user.clear(box);
    await user.type(box, text);
  };

  it("is made with an account, and its administrator's link is shown once", async () => {
    const { user, container, requests } = open("/organizations", { company });
    await user.click(await screen.findByRole("button", { name: "New organization" }));
    const dialog = await screen.findByRole("dialog");
    const create = within(dialog).getByRole("button", { name: "Create the organization" });
    const type = typing(user);
    await type(/^Name/, "Blue Whale");
    await user.click(within(dialog).getByRole("radio", { name: "Make an account" }));
    await type(/^User name/, "maria");
    await type(/^Their name/, "Maria Silva");
    await type(/^Time zone/, "Moon/Base");
    await type(/^Guaranteed/, "64");
    expect(within(dialog).getByText("Choose the pool too.")).toBeInTheDocument();
    expect(create).toBeDisabled();
    await user.click(within(dialog).getByRole("combobox", { name: /^Pool/ }));
    await user.click(await screen.findByRole("option", { name: "h100" }));
    await user.click(create);
    expect(await within(dialog).findByText("must be an IANA name of a time zone, such as Europe/Berlin")).toBeInTheDocument();
    expect(await accessibilityFaults(container)).toEqual([]);
    await type(/^Time zone/, "Europe/Lisbon");
    await user.click(create);
    expect(await screen.findByText(/\/set-password#tdl_exampleOnly$/)).toBeInTheDocument();
    expect(screen.getByText(/no prices/)).toBeInTheDocument();
    const sent = requests.filter(({ path, method }) => path === "/api/v1/organizations" && method === "POST");
    expect(sent.at(-1)?.body).toEqual({
      name: "Blue Whale",
      first_administrator: { username: "maria", name: "Maria Silva", email: "" },
      team: null,
      pool: "h100",
      guaranteed_mgpu: 64_000,
      currency: "EUR",
      time_zone: "Europe/Lisbon",
    });
    await user.click(within(screen.getByRole("dialog")).getAllByRole("button", { name: "Close" })[1] ?? create);
    await waitFor(() => expect(screen.queryByText(/tdl_exampleOnly/)).toBeNull());
  });

  // Against: the old preview shown for another file; a file with errors offered to be imported.
  it("is made by invitation with a tree file, which is previewed", async () => {
    const { user, requests } = open("/organizations", { company });
    await user.click(await screen.findByRole("button", { name: "New organization" }));
    const dialog = await screen.findByRole("dialog");
    const type = typing(user);
    await type(/^Name/, "Blue Whale");
    await type(/^Email/, "maria@example.org");
    const choose = (text: string) =>
      user.upload(dialog.querySelector<HTMLInputElement>("input[type=file]") as HTMLInputElement, new File([text], "tree.csv"));
    await choose("nonsense");
    await user.click(await within(dialog).findByRole("button", { name: "Preview" }));
    expect(await within(dialog).findByText(/^The first line must name columns/)).toBeInTheDocument();
    const create = within(dialog).getByRole("button", { name: "Create the organization" });
    expect(create).toBeDisabled();
    await choose(TREE);
    await waitFor(() => expect(within(dialog).queryByText(/^The first line must name columns/)).toBeNull());
    await user.click(within(dialog).getByRole("button", { name: "Preview" }));
    expect(await within(dialog).findByRole("table", { name: "Changes" })).toBeInTheDocument();
    await user.click(create);
    expect(await screen.findByText(/\/set-password#tdi_exampleOnly$/)).toBeInTheDocument();
    const sent = requests.filter(({ path, method }) => path === "/api/v1/organizations" && method === "POST");
    expect(sent.map(({ body }) => body)).toEqual([
      {
        name: "Blue Whale",
        invited_administrator: { email: "maria@example.org", name: null },
        team: null,
        pool: null,
        guaranteed_mgpu: null,
        currency: "EUR",
        time_zone: expect.any(String) as string,
        tree: { format: "csv", text: TREE },
      },
    ]);
  });
});
