/** The editor of the tree: new and renamed nodes, and the import of a file; answered, but not remembered. */
import type { TreeImportPreview, TreeImportRequest, TreeNode } from "../src/api/types";
import { TREE, uuid } from "./company.ts";
import { aProblem, type MockAnswer, type MockRequest } from "./http.ts";

const CHANGE = { line: 2, kind: "", user: "", role: "", pool: "", before: "", after: "", nodes_below: 0 };

export const theImportChanges: TreeImportPreview["changes"] = [
  { ...CHANGE, action: "node_created", kind: "team", path: "ai-company/research/robotics", after: "Robotics" },
  {
    ...CHANGE,
    action: "node_moved",
    line: 3,
    kind: "team",
    path: "ai-company/production/speech",
    before: "ai-company/research/speech",
    after: "ai-company/production/speech",
  },
  {
    ...CHANGE,
    action: "role_granted",
    line: 4,
    path: "ai-company/research/robotics",
    user: "leo@ai-company",
    role: "team_lead",
  },
  {
    ...CHANGE,
    action: "person_invited",
    line: 5,
    path: "ai-company/research/robotics",
    user: "maximiliane.featherstonehaugh-cholmondeley@research.example.org",
    role: "researcher",
    after: "Maximiliane Featherstonehaugh-Cholmondeley",
  },
  {
    ...CHANGE,
    action: "quota_changed",
    line: 6,
    path: "ai-company/research",
    pool: "h100",
    before: "guaranteed 400, weight 100",
    after: "guaranteed 420.5, weight 120",
  },
];

/** A file without a line of heads has an error; all others have five changes. */
export function treeImport({ body, query }: MockRequest): MockAnswer {
  const { text, revoke_missing: revokes } = body as TreeImportRequest;
  const isRefused = !text.startsWith("kind,path");
  const changes = isRefused ? [] : theImportChanges;
  const answer: TreeImportPreview = {
    is_applied: query.get("dry_run") === null,
    digest: isRefused ? null : "d1",
    counts: Object.fromEntries(changes.map(({ action }) => [action, 1])),
    changes,
    error_count: isRefused ? 1 : 0,
    line_errors: isRefused
      ? [{ line: 1, sentence: "The first line must name columns of: kind,path,name,id,user,role,expires_at,pool,guaranteed,borrow_limit,lend_limit,weight." }]
      : [],
    missing_nodes: 0,
    missing_roles: revokes === true || isRefused ? 0 : 3,
    second_person: null,
  };
  return { status: 200, body: answer };
}

export function newNode({ body }: MockRequest, kind: TreeNode["kind"]): MockAnswer {
  const { parent, slug, name } = body as { parent: string; slug: string; name: string };
  if (TREE.some(({ path }) => path === `${parent}/${slug}`)) {
    return aProblem(409, "conflict", `There is already a ${parent}/${slug}.`);
  }
  const node: TreeNode = {
    id: uuid(8100),
    kind,
    slug,
    name,
    path: `${parent}/${slug}`,
    parent,
    organization: parent.split("/")[0] ?? "",
    depth: parent.split("/").length,
    archived_at: null,
  };
  return { status: 201, body: node };
}

export function renamedNode({ body }: MockRequest, id = ""): MockAnswer {
  const node = TREE.find((each) => each.id === id);
  if (node === undefined) return aProblem(404, "not_found", "It does not exist, or you may not see it.");
  return { status: 200, body: { ...node, ...(body as { name: string }) } };
}
