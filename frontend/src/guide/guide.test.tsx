import { screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { describe, expect, it } from "vitest";

import { accessibilityFaults, open } from "../test/render";
import { addressOf, documentNames, loadDocument } from "./documents";
import { renderDocument, sectionsOf, titleOf } from "./rendering";
import { Guide, FOUND_MAX } from "./searching";

const TEXT = `# Quotas

<!-- a comment -->
Read [requests](requests.md#who-decides), [the rules](../scheduling.md), [a folder](../operate/README.md),
[code](../../tenants/roles.py) and [a site](https://example.org).

## Who decides?

| code | meaning |
|---|---|
| \`never_fits\` | It can never start. |

## Who decides?

Somebody else.
`;

describe("a document", () => {
  it("links to what the portal shows, and to nothing else", () => {
    const html = renderDocument("requests", TEXT);
    expect([...html.matchAll(/href="([^"]*)"/g)].map(([, address]) => address)).toEqual([
      "/guide/requests#who-decides",
      "/guide/scheduling",
      "/guide/operate",
      "https://example.org",
    ]);
    expect(html).toContain("code and ");
    expect(html).not.toContain("comment");
    expect(html).not.toContain("<h1");
  });

  it("gives anchors to headings and to rows of codes", () => {
    const html = renderDocument("requests", TEXT);
    expect([...html.matchAll(/id="([^"]*)"/g)].map(([, anchor]) => anchor)).toEqual([
      "who-decides",
      "never_fits",
      "who-decides-1",
    ]);
    expect(titleOf(TEXT)).toBe("Quotas");
  });

  it("is cut into sections for the search", () => {
    expect(sectionsOf("requests", TEXT).map(({ heading, anchor, text }) => [heading, anchor, text])).toEqual([
      ["Quotas", "", "Read requests, the rules, a folder,\ncode and a site."],
      ["Who decides?", "who-decides", "code meaning\nnever_fits It can never start."],
      ["Who decides?", "who-decides-1", "Somebody else."],
    ]);
  });
});

describe("all documents", () => {
  it("have no link to a heading that does not exist", async () => {
    const rendered = new Map<string, string>();
    for (const name of documentNames()) rendered.set(name, renderDocument(name, (await loadDocument(name)) ?? ""));
    expect(rendered.size).toBeGreaterThan(20);
    const lost: string[] = [];
    for (const [name, html] of rendered) {
      for (const [, to = "", anchor] of html.matchAll(/href="\/guide\/([^"#]+)(?:#([^"]*))?"/g)) {
        const target = rendered.get(to);
        if (target === undefined || (anchor && !target.includes(`id="${anchor}"`))) lost.push(`${name}: ${to}#${anchor}`);
      }
    }
    expect(lost).toEqual([]);
  });
});

describe("links of a document", () => {
  it("go on from its own folder", () => {
    expect(addressOf("../guide/requests.md", "operate")).toBe("/guide/requests");
    expect(addressOf("restore.md", "operate")).toBe("/guide/operate-restore");
    expect(addressOf("#units", "glossary")).toBe("/guide/glossary#units");
  });
});

describe("the search", () => {
  const guide = new Guide([
    ...sectionsOf("requests", TEXT),
    ...Array.from({ length: 30 }, (_, n) => ({ document: "x", title: "X", heading: `Part ${n}`, anchor: `part-${n}`, text: "filler" })),
  ]);

  it("finds sections that have all words, also by beginning and with a typing mistake", () => {
    expect(guide.find("never start").map(({ heading, anchor }) => [heading, anchor])).toEqual([["Who decides?", "who-decides"]]);
    expect(guide.find("somebdy").map(({ anchor }) => anchor)).toEqual(["who-decides-1"]);
    expect(guide.find("deci never").map(({ anchor }) => anchor)).toEqual(["who-decides"]);
    expect(guide.find("never absent")).toEqual([]);
  });

  it("has a bound", () => {
    expect(guide.find("filler")).toHaveLength(FOUND_MAX);
  });
});

describe("the page", () => {
  it("shows the guide, follows a link, and finds what somebody types", async () => {
    const { router, container } = open("/guide?scope=ai-company");
    expect(await screen.findByRole("heading", { level: 1, name: "Guide" })).toBeVisible();
    await userEvent.click(await screen.findByRole("link", { name: "Guide for team leads" }));
    await waitFor(() => expect(router.state.location.href).toBe("/guide/team-leads?scope=ai-company"));
    expect(await screen.findByRole("heading", { level: 1, name: "Guide for team leads" })).toBeVisible();

    await userEvent.type(screen.getByRole("searchbox", { name: "Search the guide" }), "budget_exhausted");
    const found = await screen.findByRole("region", { name: "Found for “budget_exhausted”" });
    await userEvent.click(await within(found).findByRole("link", { name: "Codes" }));
    await waitFor(() => expect(router.state.location.href).toBe("/guide/reference-reason-codes?scope=ai-company#codes"));
    expect(await screen.findByRole("heading", { level: 1, name: "Reason codes" })).toBeVisible();
    expect(screen.getByRole("searchbox", { name: "Search the guide" })).toHaveValue("");
    expect(await accessibilityFaults(container)).toEqual([]);
  });

  it("says so when nothing is found, and for a document that does not exist", async () => {
    open("/guide?q=xylophonic");
    expect(await screen.findByText("Nothing has all of these words. Try fewer, or other ones.")).toBeVisible();
  });

  it("leads from an unknown document to the beginning", async () => {
    open("/guide/nothing");
    expect(await screen.findByText(/The guide has no document of this name/)).toBeVisible();
    expect(screen.getByRole("link", { name: "Go to its beginning." })).toHaveAttribute("href", "/guide");
  });
});
