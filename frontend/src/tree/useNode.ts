import { createContext, useContext } from "react";

import type { TreeNode } from "../api/types";

/** Set by the frame of a node's pages, so that each tab knows its node. */
export const NodeContext = createContext<TreeNode | null>(null);

/** The node of the address. Only for the tabs of a node's page. */
export function useNode(): TreeNode {
  const node = useContext(NodeContext);
  if (node === null) throw new Error("useNode is for the tabs of a node's page");
  return node;
}
