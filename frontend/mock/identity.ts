/** The made-up identity provider of the company, its groups, and the beginning of a sign-in there. */
import type { DeviceLogin, GroupMapping, IdentityProvider, Scim, ScimToken } from "../src/api/types";
import { uuid } from "./company.ts";
import { aProblem, page, type MockAnswer, type MockRequest } from "./http.ts";

const AT = "2026-11-20T08:00:00Z";

export function anIdentityProvider(change: Partial<IdentityProvider> = {}): IdentityProvider {
  return {
    organization: "ai-company",
    name: "Company login",
    issuer: "https://login.example.org/realms/main",
    client_id: "tidegate",
    scopes: ["openid", "profile", "email", "groups"],
    groups_claim: "groups",
    creates_people: true,
    links_by_email: false,
    is_enabled: true,
    is_listed: true,
    allows_passwords: true,
    callback_url: "https://gpus.example.org/api/v1/session/callback/ai-company",
    version: 3,
    changed_at: AT,
    ...change,
  };
}

/** A login of a machine at another address; of a wrong code, there is none. */
export function deviceLogin({ path }: MockRequest): MockAnswer {
  const code = path.split("/")[4]?.toUpperCase() ?? "";
  if (code !== "WDJB-MJHT")
    return aProblem(404, "not_found", "No login with this code waits. Compare the code with the one in the terminal, or run `tidegate login` again.");
  const body: DeviceLogin = {
    user_code: code,
    host: "login-node-2",
    address: "198.51.100.20",
    is_own_address: false,
    scopes: ["jobs", "read"],
    token_days: 30,
    created_at: new Date(Date.now() - 40_000).toISOString(),
    expires_at: new Date(Date.now() + 560_000).toISOString(),
  };
  return { status: 200, body };
}

function theGroupMappings(): GroupMapping[] {
  return [
    { id: uuid(901), group: "gpu-nlp", role: "researcher", node: "ai-company/research/nlp", created_at: AT },
    { id: uuid(902), group: "gpu-leads", role: "team_lead", node: "ai-company/research/nlp", created_at: AT },
    { id: uuid(903), group: "controlling", role: "finance", node: "ai-company", created_at: AT },
  ];
}

/** Shows the provider, tests it, and answers a change without remembering it. */
export function identityProvider({ method, path, body }: MockRequest): MockAnswer {
  if (path.endsWith("/test"))
    return {
      status: 200,
      body: {
        problems: [],
        authorization_endpoint: "https://login.example.org/auth",
        token_endpoint: "https://login.example.org/token",
        userinfo_endpoint: null,
      },
    };
  return { status: 200, body: anIdentityProvider(method === "PUT" ? { ...(body as object), version: 4 } : {}) };
}

export function groupMappings({ method, query, body }: MockRequest): MockAnswer {
  if (method === "DELETE") return { status: 204 };
  if (method === "POST") return { status: 201, body: { id: uuid(909), created_at: AT, ...(body as object) } };
  return page(theGroupMappings(), query);
}

/** SCIM of the company, as its identity provider used it an hour ago. */
function theScim(): Scim {
  return {
    base_url: "https://gpus.example.org/scim/v2",
    external_id_claim: "sub",
    adopts_accounts: false,
    // Some minutes more, so that a page whose clock stands still for a while says the same.
    last_contact_at: new Date(Date.now() - 3_900_000).toISOString(),
    active_people: 412,
    deactivated_people: 9,
    groups: 23,
    version: 2,
  };
}

function theScimTokens(): ScimToken[] {
  const token = { created_by: "alice@ai-company", created_at: AT, revoked_at: null };
  return [
    {
      ...token,
      id: uuid(921),
      name: "Entra ID",
      prefix: "tds_4QxJw9Rz",
      expires_at: new Date(Date.now() + 300 * 86_400_000).toISOString(),
      last_used_at: new Date(Date.now() - 3_600_000).toISOString(),
    },
    { ...token, id: uuid(920), name: "Entra ID", prefix: "tds_0aBcDeFg", expires_at: AT, last_used_at: AT },
  ];
}

/** Shows SCIM and its tokens, and answers a change without remembering it. */
export function scim({ method, path, query, body }: MockRequest): MockAnswer {
  if (method === "DELETE") return { status: 204 };
  if (method === "POST")
    return {
      status: 201,
      body: { ...theScimTokens()[0], id: uuid(929), ...(body as object), secret: "tds_5mK2vQ8sT1xY7wR3zL9nB4cD6fG0hJ1aQ2wE" },
    };
  if (path.endsWith("/tokens")) return page(theScimTokens(), query);
  return { status: 200, body: { ...theScim(), ...(method === "PUT" ? { ...(body as object), version: 3 } : {}) } };
}

export function signInOptions({ query }: MockRequest): MockAnswer {
  const organization = query.get("organization");
  const providers = organization === "nowhere" ? [] : [{ organization: "ai-company", name: "Company login" }];
  return { status: 200, body: { providers } };
}

export function beginAtProvider({ body }: MockRequest): MockAnswer {
  return (body as { organization: string }).organization === "ai-company"
    ? { status: 200, body: { authorization_url: "#at-the-provider" } }
    : aProblem(404, "not_found", "No identity provider of this name can be used. Check the organization, or sign in with a password.");
}
