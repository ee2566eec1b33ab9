/**
 * The company with everything as long as the database lets it be: names of 200 characters without a
 * space, slugs of 63, 12 levels of departments, numbers of 20 digits. For the test of page widths.
 */
import type { Quota, TreeNode } from "../src/api/types";
import { aCompany, answer, type Company } from "./answer.ts";
import type { MockAnswer, MockRequest } from "./http.ts";
import { aQuota, uuid } from "./company.ts";

const NAME_LENGTH = 200;
const SLUG_LENGTH = 63;
const DEPTH = 12;
const NUMBER = 12_345_678_901_234_567_168;

/** What lengthens a word, and is taken off again where a page asks by it. */
const TAIL = "-wwww";
const TAILS = /-wwwww*/g;

/** Keys whose values are paths of nodes, or slugs. */
const SLUGS = new Set(["node", "path", "parent", "team", "node_path", "pool", "cluster", "organization", "user", "username", "login", "actor", "account", "requested_by", "created_by", "decided_by", "beneficiary_team", "borrower", "lender", "for_team", "slug", "priority_class", "native_id", "other"]);
/** Keys whose values people write, or a cluster. */
const NAMES = new Set(["name", "node_name", "job_name", "reason", "message", "sentence", "description", "note", "detail", "value", "title", "text", "exit_reason", "hint", "mapping", "features"]);
const NUMBERS = /_mgpu$|_mgpu_s$|_ugpu_s$|^mgpu(_s)?$|_nano$|^jobs$/;

function longer(text: string, length: number): string {
  return text.length >= length || text === "" ? text : text + TAIL.padEnd(length - text.length, "w").slice(0, Math.max(TAIL.length, length - text.length));
}

function longPath(path: string): string {
  return path.split("/").map((slug) => longer(slug, SLUG_LENGTH)).join("/");
}

/** The value with long words and numbers in it; the same word becomes the same long word everywhere. */
function stretched(value: unknown, key: string, isName: boolean): unknown {
  if (Array.isArray(value)) return value.map((each) => stretched(each, key, isName));
  if (typeof value === "string") {
    // A cluster's and a pool's own name is a slug by which others call it.
    if (SLUGS.has(key) || (key === "name" && !isName)) return longPath(value);
    return NAMES.has(key) ? longer(value, NAME_LENGTH) : value;
  }
  if (typeof value === "number") return NUMBERS.test(key) ? NUMBER : value;
  if (value === null || typeof value !== "object") return value;
  const entries = Object.entries(value);
  const hasSlug = "capacity_mgpu" in value || "stale_after_s" in value || "healthy_mgpu" in value;
  return Object.fromEntries(
    entries.map(([name, each]) =>
      key === "permissions" || key === "organizations" ? [longPath(name), each] : [name, stretched(each, name, !hasSlug)],
    ),
  );
}

function deepQuotas(quotas: readonly Quota[]): Quota[] {
  let parent = "ai-company";
  const deep = Array.from({ length: DEPTH }, (_, level) => {
    const node = `${parent}/level-${level}`;
    const kind: TreeNode["kind"] = level === DEPTH - 1 ? "team" : "department";
    const quota = aQuota(node, 10, { inUse: 12, waiting: 3 }, { id: uuid(800 + level), node_kind: kind, parent });
    parent = node;
    return quota;
  });
  return [...quotas, ...deep];
}

export function anExtremeCompany(): Company {
  const company = aCompany();
  company.quotas = deepQuotas(company.quotas);
  if (company.session) {
    company.session.permissions = { "": [...(Object.values(company.session.permissions)[0] ?? []), "manage_members"] };
    company.session.grants = [{ role: "platform_admin", node_path: null }, ...company.session.grants];
  }
  return company;
}

/** Answers as `answer`, with everything stretched. */
export function extremeAnswer(company: Company, request: MockRequest): MockAnswer {
  const query = new URLSearchParams([...request.query].map(([name, value]) => [name, value.replace(TAILS, "")]));
  const result = answer(company, { ...request, query, path: decodeURIComponent(request.path).replace(TAILS, "") });
  return { ...result, body: stretched(result.body, "", true) };
}
