/** Organizations: their list for platform administrators, and new ones; answered, but not remembered. */
import type { NewOrganization, NewOrganizationRequest, OrganizationSummary } from "../src/api/types";
import { iso, TREE } from "./company.ts";
import { aProblem, page, type MockAnswer, type MockRequest } from "./http.ts";
import { treeImport } from "./treeFiles.ts";

const MISSING = ["Its rate card has no prices yet, so its jobs cost nothing."];

export function organizations(request: MockRequest, id?: string): MockAnswer {
  const { method, query, body } = request;
  if (id === "summaries") return page(theOrganizations(), query);
  if (id === "preview") {
    const { tree } = body as NewOrganizationRequest;
    const found = tree ? treeImport({ ...request, body: tree }).body : null;
    return { status: 200, body: { path: "blue-whale", team: null, tree: found, missing: MISSING } };
  }
  if (method === "POST") return newOrganization(body as NewOrganizationRequest);
  return page(
    TREE.filter((node) => node.kind === "organization"),
    query,
  );
}

function theOrganizations(): OrganizationSummary[] {
  const own = TREE.find(({ kind }) => kind === "organization");
  if (own === undefined) return [];
  const counts = { created_at: iso(Date.now() - 400 * 86_400_000), jobs_waiting: 3 };
  return [
    {
      ...own,
      ...counts,
      time_zone: "Europe/Berlin",
      currency: "EUR",
      people: 42,
      teams: 12,
      guarantees: [{ pool: "h100", device: "gpu", guaranteed_mgpu: 1_000_000 }],
      jobs_running: 7,
    },
    {
      ...own,
      ...counts,
      id: "01a1fd00-0000-7000-8000-0000000000ab",
      slug: "rival-lab",
      path: "rival-lab",
      organization: "rival-lab",
      name: "Rival Lab",
      archived_at: iso(Date.now() - 86_400_000),
      time_zone: "UTC",
      currency: "",
      people: 0,
      teams: 1,
      guarantees: [],
      jobs_running: 0,
    },
  ];
}

function newOrganization(given: NewOrganizationRequest): MockAnswer {
  if (given.time_zone === "Moon/Base") {
    const detail = "must be an IANA name of a time zone, such as Europe/Berlin";
    return aProblem(400, "invalid_request", `time_zone ${detail}.`, {
      errors: [{ pointer: "/time_zone", detail, code: "invalid" }],
    });
  }
  const slug = given.name.toLowerCase().replaceAll(/[^a-z0-9]+/g, "-");
  const expires_at = iso(Date.now() + 3_600_000);
  const { first_administrator: first, invited_administrator: invited } = given;
  const login = first ? `${first.username}@${slug}` : null;
  const made: NewOrganization = {
    id: "01a1fd00-0000-7000-8000-0000000000aa",
    kind: "organization",
    slug,
    name: given.name,
    path: slug,
    parent: null,
    organization: slug,
    depth: 0,
    archived_at: null,
    team: given.tree ? null : `${slug}/main`,
    first_administrator: login,
    password_link: login === null ? null : { user: login, expires_at, sent_to: null, link: "/set-password#tdl_exampleOnly" },
    invitation: invited
      ? {
          id: "01a1fd00-0000-7000-8000-0000000000ac",
          node: slug,
          email: invited.email,
          username: "maria",
          name: invited.name ?? "maria",
          role: "organization_admin",
          role_expires_at: null,
          invited_by: "root",
          created_at: iso(Date.now()),
          expires_at,
          is_mailed: false,
          link: "/set-password#tdi_exampleOnly",
        }
      : null,
    missing: MISSING,
  };
  return { status: 201, body: made };
}
