import { client, unwrap } from "../api/client";
import type { TreeImportPreview, TreeImportRequest, TreeNode } from "../api/types";

/** Previews a tree file at and below a node. Nothing is changed. */
export function previewImport(nodeId: string, body: TreeImportRequest): Promise<TreeImportPreview> {
  return unwrap(
    client.POST("/api/v1/tree/{tree_node_id}/import", {
      params: { path: { tree_node_id: nodeId }, query: { dry_run: true } },
      body,
    }),
  );
}

/** Applies the changes of the preview with this digest, and no others. */
export function applyImport(nodeId: string, body: TreeImportRequest, digest: string): Promise<TreeImportPreview> {
  return unwrap(
    client.POST("/api/v1/tree/{tree_node_id}/import", {
      params: { path: { tree_node_id: nodeId }, header: { "If-Match": `"${digest}"` } },
      body,
    }),
  );
}

/** Makes a department or a team below a node. */
export function makeNode(kind: "department" | "team", parent: TreeNode, slug: string, name: string): Promise<TreeNode> {
  const body = { parent: parent.path, slug, name };
  return kind === "team"
    ? unwrap(client.POST("/api/v1/teams", { body }))
    : unwrap(client.POST("/api/v1/departments", { body }));
}

/** Gives a node another name. */
export function renameNode({ kind, id }: TreeNode, name: string): Promise<TreeNode> {
  const given = { params: { path: { node_id: id } }, body: { name } };
  if (kind === "team") return unwrap(client.PATCH("/api/v1/teams/{node_id}", given));
  if (kind === "department") return unwrap(client.PATCH("/api/v1/departments/{node_id}", given));
  return unwrap(client.PATCH("/api/v1/organizations/{node_id}", given));
}
