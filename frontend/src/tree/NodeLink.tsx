import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";

import { treeQuery } from "../api/queries";

/** A link to the pages of the node at `path`; nothing until the tree is known. */
export function NodeLink({ path }: { path: string }) {
  const tree = useQuery(treeQuery);
  const node = tree.data?.find((each) => each.path === path);
  if (node === undefined) return null;
  return (
    <p>
      <Link to="/tree/$nodeId/members" params={{ nodeId: node.id }}>
        Members and history of {node.name}
      </Link>
    </p>
  );
}
