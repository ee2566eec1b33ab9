import { useQuery } from "@tanstack/react-query";
import { Link, Outlet, useParams } from "@tanstack/react-router";

import { treeQuery } from "../api/queries";
import type { TreeNode } from "../api/types";
import { NoPage, Page, PageLoading } from "../ui/Page";
import { ErrorCard } from "../ui/states";
import { NodeContext } from "./useNode";
import "./tree.css";

/** The pages of one node of the tree, as tabs. Its child routes are the tabs' contents. */
export function TreePage() {
  const { nodeId } = useParams({ from: "/shell/tree/$nodeId" });
  const tree = useQuery(treeQuery);
  if (tree.data === undefined) {
    return tree.error ? (
      <ErrorCard error={tree.error} onRetry={() => void tree.refetch()} />
    ) : (
      <PageLoading title="Node" label="Loading the tree" />
    );
  }
  const node = tree.data.find(({ id }) => id === nodeId);
  if (node === undefined) {
    return (
      <NoPage title="Not found">
        <p>There is no such organization, department or team, or you may not see it.</p>
        <p>
          <Link to="/quotas">All quotas</Link>
        </p>
      </NoPage>
    );
  }
  return (
    <NodeContext value={node}>
      <Page
        title={node.path}
        heading={
          <>
            {node.name} {node.archived_at !== null && <span className="pill">archived</span>}
          </>
        }
        lead={<Place node={node} nodes={tree.data} />}
      >
        <NodeTabs node={node} />
        <Outlet />
      </Page>
    </NodeContext>
  );
}

/** The path of the node; each node above it is a link to its own page. */
function Place({ node, nodes }: { node: TreeNode; nodes: readonly TreeNode[] }) {
  const above = nodes.filter(({ path }) => node.path.startsWith(`${path}/`));
  return (
    <>
      {node.kind} ·{" "}
      {above.map((each) => (
        <span key={each.id}>
          <Link to="/tree/$nodeId/members" params={{ nodeId: each.id }}>
            {each.slug}
          </Link>
          {" / "}
        </span>
      ))}
      {node.slug}
    </>
  );
}

function NodeTabs({ node }: { node: TreeNode }) {
  const params = { nodeId: node.id };
  return (
    <nav className="tabs" aria-label={`Pages of ${node.path}`}>
      <Link to="/quotas" search={{ scope: node.path, node: node.path }}>
        Now
      </Link>
      <Link to="/tree/$nodeId/history" params={params}>
        History
      </Link>
      <Link to="/tree/$nodeId/members" params={params}>
        Members
      </Link>
      <Link to="/tree/$nodeId/structure" params={params}>
        Structure
      </Link>
      <Link to="/policy" search={{ organization: node.organization, scope: node.path }}>
        Policy
      </Link>
      <Link to="/quota-changes" search={{ scope: node.path }}>
        Changes
      </Link>
    </nav>
  );
}
