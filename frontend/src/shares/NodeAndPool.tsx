import { Select } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";

import { poolsQuery, treeQuery } from "../api/queries";
import type { TreeNode } from "../api/types";
import { Card } from "../ui/Card";
import { Page } from "../ui/Page";
import { Empty, Lines, QueryView } from "../ui/states";
import type { SharesSearch } from "./search";
import "./shares.css";

/** A node of the tree and a pool, both by name. */
export interface Place {
  node: string;
  pool: string;
}

/** A page on a node and a pool: both are chosen at its top, and its content follows. */
export function NodeAndPool({
  title,
  lead,
  search,
  start,
  onChange,
  children,
}: {
  title: string;
  lead: string;
  search: SharesSearch;
  /** The node that is shown first. */
  start: (nodes: readonly TreeNode[]) => TreeNode | undefined;
  onChange: (next: SharesSearch) => void;
  children: (place: Place) => ReactNode;
}) {
  const tree = useQuery(treeQuery);
  const pools = useQuery(poolsQuery);
  const nodes = (tree.data ?? []).filter((node) => node.archived_at === null);
  const names = (pools.data ?? []).filter((pool) => pool.archived_at === null).map(({ name }) => name);
  const node = (nodes.find(({ path }) => path === search.node) ?? start(nodes) ?? nodes[0])?.path;
  const pool = names.find((name) => name === search.pool) ?? names[0];
  return (
    <Page title={title} lead={lead}>
      <QueryView query={tree} loading={<Lines count={8} label="Loading the tree" />}>
        {() => (
          <QueryView query={pools} loading={<Lines count={8} label="Loading the pools" />}>
            {() =>
              node === undefined || pool === undefined ? (
                <Card>
                  <Empty>{node === undefined ? "No node is visible to you." : "No pool yet."}</Empty>
                </Card>
              ) : (
                <>
                  <div className="filters" role="group" aria-label="Node and pool">
                    <Select
                      className="shares-node"
                      label="Node"
                      searchable
                      limit={200}
                      allowDeselect={false}
                      data={nodes.map(({ path }) => path)}
                      value={node}
                      onChange={(next) => next !== null && onChange({ node: next })}
                    />
                    <Select
                      label="Pool"
                      allowDeselect={false}
                      data={names}
                      value={pool}
                      onChange={(next) => next !== null && onChange({ pool: next })}
                    />
                  </div>
                  {children({ node, pool })}
                </>
              )
            }
          </QueryView>
        )}
      </QueryView>
    </Page>
  );
}
