import { screen, waitFor, within } from "@testing-library/react";
import { describe, expect, it } from "vitest";

import { aCompany } from "../../mock/answer.ts";
import { aSession } from "../../mock/company.ts";
import { aProblem } from "../../mock/http.ts";
import { accessibilityFaults, open } from "../test/render";

const admins = () => aCompany({ session: aSession({ permissions: { "ai-company": ["view_tree", "manage_members"] } }) });

describe("the sign-in settings of an organization", () => {
  it("shows the provider without its secret, and the groups that give roles", async () => {
    const { container } = open("/sign-in", { company: admins() });
    expect(await screen.findByRole("textbox", { name: /Issuer/ })).toHaveValue("https://login.example.org/realms/main");
    expect(screen.getByLabelText(/Client secret/)).toHaveValue("");
    expect(screen.getByText("https://gpus.example.org/api/v1/session/callback/ai-company")).toBeVisible();
    const groups = await screen.findByRole("table", { name: "Groups that give roles" });
    expect(within(groups).getByRole("row", { name: /gpu-nlp researcher ai-company\/research\/nlp/ })).toBeVisible();
    expect(await accessibilityFaults(container)).toEqual([]);
  });

  it("saves what changed with the version, and keeps the stored secret", async () => {
    const { user, requests } = open("/sign-in", { company: admins() });
    await user.click(await screen.findByRole("switch", { name: /Link by email/ }));
    await user.click(screen.getByRole("button", { name: "Save" }));
    await waitFor(() => expect(requests.some(({ method }) => method === "PUT")).toBe(true));
    const sent = requests.find(({ method }) => method === "PUT");
    expect(sent?.headers["if-match"]).toBe('"v3"');
    expect(sent?.body).toMatchObject({ links_by_email: true, client_secret: null, groups_claim: "groups" });
  });

  // Planted: a test of the stored provider while another one is on the screen.
  it("says what is wrong with a field, and what a test found", async () => {
    const { user } = open("/sign-in", {
      company: admins(),
      override: ({ method, path }) =>
        path.endsWith("/test")
          ? {
              status: 200,
              body: { problems: ["The provider cannot be reached."], authorization_endpoint: null, token_endpoint: null, userinfo_endpoint: null },
            }
          : method === "PUT"
            ? aProblem(409, "conflict", "Passwords stay on.", {
                errors: [{ pointer: "/allows_passwords", detail: "nobody could administer the organization", code: "invalid" }],
              })
            : undefined,
    });
    await user.click(await screen.findByRole("button", { name: "Test" }));
    expect(await screen.findByText("The provider cannot be reached.")).toBeVisible();
    await user.click(screen.getByRole("switch", { name: /Passwords/ }));
    expect(screen.getByRole("button", { name: "Test" })).toBeDisabled();
    await user.click(screen.getByRole("button", { name: "Save" }));
    expect(await screen.findByText("nobody could administer the organization")).toBeVisible();
  });

  it("sets a first provider up with a secret", async () => {
    const { user, requests } = open("/sign-in", {
      company: admins(),
      override: ({ method, path }) =>
        method === "GET" && path.endsWith("/identity-provider") ? aProblem(404, "not_found", "None yet.") : undefined,
    });
    await user.type(await screen.findByRole("textbox", { name: /Issuer/ }), "https://login.example.org");
    await user.type(screen.getByRole("textbox", { name: /Client ID/ }), "tidegate");
    expect(screen.getByRole("button", { name: "Save" })).toBeDisabled();
    await user.type(screen.getByLabelText(/Client secret/), "secret");
    await user.click(screen.getByRole("button", { name: "Save" }));
    await waitFor(() => expect(requests.some(({ method }) => method === "PUT")).toBe(true));
    const sent = requests.find(({ method }) => method === "PUT");
    expect(sent?.headers["if-match"]).toBeUndefined();
    expect(sent?.body).toMatchObject({ client_secret: "secret", scopes: ["openid", "profile", "email"] });
  });

  it("asks before a mapping is removed", async () => {
    const { user, requests } = open("/sign-in", { company: admins() });
    await user.click(await screen.findByRole("button", { name: "Remove gpu-leads" }));
    expect(await screen.findByText(/lose the role team lead on ai-company\/research\/nlp at once/)).toBeVisible();
    await user.click(screen.getByRole("button", { name: "Remove" }));
    await waitFor(() => expect(requests.some(({ method }) => method === "DELETE")).toBe(true));
  });
});

describe("SCIM of an organization", () => {
  it("shows the address, the last contact, the counts and the tokens", async () => {
    const { container } = open("/sign-in", { company: admins() });
    const facts = await screen.findByRole("table", { name: "SCIM" });
    expect(within(facts).getByRole("row", { name: /Address https:\/\/gpus.example.org\/scim\/v2/ })).toBeVisible();
    expect(within(facts).getByRole("row", { name: /Last contact 1 h ago/ })).toBeVisible();
    expect(within(facts).getByRole("row", { name: "People 412 active, 9 deactivated" })).toBeVisible();
    expect(within(facts).getByRole("row", { name: "Groups 23" })).toBeVisible();
    const tokens = await screen.findByRole("table", { name: "Tokens for SCIM" });
    expect(within(tokens).getByRole("row", { name: /Entra ID tds_4QxJw9Rz… .* Replace… End…/ })).toBeVisible();
    // Against: buttons beside a token that has expired.
    expect(within(tokens).getByRole("row", { name: /tds_0aBcDeFg… expired/ })).toBeVisible();
    expect(within(tokens).getAllByRole("button", { name: "End…" })).toHaveLength(1);
    expect(await accessibilityFaults(container)).toEqual([]);
  });

  it("shows the secret of a new token this once", async () => {
    const { user, requests } = open("/sign-in", { company: admins() });
    await user.click(await screen.findByRole("button", { name: "New token" }));
    const dialog = await screen.findByRole("dialog", { name: "New token for SCIM" });
    await user.type(within(dialog).getByRole("textbox", { name: /Name/ }), "Okta");
    await user.click(within(dialog).getByRole("button", { name: "Create" }));
    expect(await screen.findByRole("heading", { name: "Token “Okta” for SCIM" })).toBeVisible();
    expect(screen.getByText("tds_5mK2vQ8sT1xY7wR3zL9nB4cD6fG0hJ1aQ2wE")).toBeVisible();
    expect(requests.find(({ method }) => method === "POST")?.body).toEqual({ name: "Okta", expires_in_days: 365 });
    await user.click(screen.getByRole("button", { name: "I have it" }));
    expect(screen.queryByText(/tds_5mK2/)).toBeNull();
  });

  it("replaces a token with a day of overlap, and asks before one ends", async () => {
    const { user, requests } = open("/sign-in", { company: admins() });
    await user.click(await screen.findByRole("button", { name: "Replace…" }));
    await user.click(await screen.findByRole("button", { name: "Replace" }));
    await waitFor(() => expect(requests.find(({ path }) => path.endsWith("/replace"))?.body).toEqual({ overlap_s: 86400 }));
    await user.click(await screen.findByRole("button", { name: "End…" }));
    expect(await screen.findByText(/People, groups and roles stay/)).toBeVisible();
    await user.click(screen.getByRole("button", { name: "End it" }));
    await waitFor(() => expect(requests.some(({ method }) => method === "DELETE")).toBe(true));
  });

  it("saves the settings with their version", async () => {
    const { user, requests } = open("/sign-in", { company: admins() });
    await user.click(await screen.findByRole("switch", { name: /Take over accounts/ }));
    await user.click(screen.getByRole("button", { name: "Save the settings" }));
    await waitFor(() => expect(requests.some(({ method }) => method === "PUT")).toBe(true));
    const sent = requests.find(({ method }) => method === "PUT");
    expect(sent?.headers["if-match"]).toBe('"v2"');
    expect(sent?.body).toEqual({ external_id_claim: "sub", adopts_accounts: true });
  });
});

describe("the sign-in page with identity providers", () => {
  it("begins at the listed provider and keeps the page that was asked for", async () => {
    const { user, requests } = open("/login?next=%2Fquotas", { company: aCompany({ session: null }) });
    await user.click(await screen.findByRole("button", { name: "Continue with Company login" }));
    await waitFor(() =>
      expect(requests.find(({ path }) => path.endsWith("/session/provider"))?.body).toEqual({
        organization: "ai-company",
        next: "/quotas",
      }),
    );
  });

  it("takes the name of another organization, and says when there is none", async () => {
    const { user } = open("/login", { company: aCompany({ session: null }) });
    await user.click(await screen.findByRole("button", { name: "Sign in with another organization" }));
    await user.type(screen.getByRole("textbox", { name: "Organization" }), "nowhere");
    await user.click(screen.getByRole("button", { name: "Continue" }));
    expect(await screen.findByRole("alert")).toHaveTextContent("No identity provider of this name can be used.");
  });

  it("says why a sign-in was refused", async () => {
    open("/login?refused=deactivated", { company: aCompany({ session: null }) });
    expect(await screen.findByRole("alert")).toHaveTextContent("Your account is deactivated.");
  });
});
