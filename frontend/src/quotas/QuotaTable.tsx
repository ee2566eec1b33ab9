import { Link } from "@tanstack/react-router";

import type { Quota, TreeNode } from "../api/types";
import { formatCount, formatGpus } from "../ui/units";
import { QuotaBar, QuotaLegend } from "./QuotaBar";
import { indented, quotaRows } from "./tree";
import { BORROWED_HINT, commonScale, formatLent, notInForce, quotaUse } from "./use";
import "./quota-table.css";

/** The tree with its bars, all on one scale. */
export function QuotaTable({
  quotas,
  archived,
  closed,
  onToggle,
}: {
  quotas: readonly Quota[];
  /** Paths of the archived nodes: what is guaranteed there is not in force. */
  archived: ReadonlySet<string>;
  closed: ReadonlySet<string>;
  onToggle: (node: string) => void;
}) {
  const rows = quotaRows(quotas, closed);
  const countedUse = (quota: Quota) => quotaUse(archived.has(quota.node) ? notInForce(quota) : quota);
  const scaleMgpu = commonScale(quotas.map(countedUse));
  return (
    <>
      <table className="quotas">
        <thead>
          <tr>
            <th scope="col">Node</th>
            <th scope="col" className="wide">
              In use against guarantee
            </th>
            <th scope="col" className="n">
              In use
            </th>
            <th scope="col" className="n hide">
              Guaranteed
            </th>
            <th scope="col" className="n hide" title={`Borrowed: ${BORROWED_HINT} Lent: what others use of the idle guarantee.`}>
              Moves
            </th>
            <th scope="col" className="n hide">
              Waiting
            </th>
          </tr>
        </thead>
        <tbody>
          {rows.map(({ quota, level, hasChildren }) => {
            const use = countedUse(quota);
            return (
              <tr key={quota.id}>
                <th scope="row" title={quota.node} style={indented(level)}>
                  {hasChildren ? (
                    <button
                      type="button"
                      className="plain twist"
                      aria-expanded={!closed.has(quota.node)}
                      aria-label={`${quota.node_name}: what is below`}
                      onClick={() => onToggle(quota.node)}
                    >
                      {closed.has(quota.node) ? "▸" : "▾"}
                    </button>
                  ) : (
                    <span className="twist" />
                  )}
                  <Link to="/quotas" search={(before) => ({ ...before, node: quota.node })}>
                    {quota.node_name}
                  </Link>
                  {archived.has(quota.node) && (
                    <div className="small dim archived">
                      archived
                    </div>
                  )}
                </th>
                <td>
                  <QuotaBar use={use} scaleMgpu={scaleMgpu} />
                </td>
                <td className="n">
                  {formatGpus(use.inUseMgpu)}
                  <div className="only-phone small faint">of {formatGpus(use.guaranteedMgpu)}</div>
                </td>
                <td className="n hide">{formatGpus(use.guaranteedMgpu)}</td>
                <td className="n hide">
                  {use.borrowedMgpu > 0 ? (
                    <span className="pill borrow" title={`Borrowed: ${BORROWED_HINT}`}>
                      {formatGpus(use.borrowedMgpu)} borrowed
                    </span>
                  ) : use.lentMgpu > 0 ? (
                    `${formatLent(use.lentMgpu)} lent`
                  ) : (
                    <None />
                  )}
                </td>
                <td className="n hide">{use.waitingMgpu > 0 ? formatGpus(use.waitingMgpu) : <None />}</td>
              </tr>
            );
          })}
        </tbody>
      </table>
      <QuotaLegend />
    </>
  );
}

/** Nodes that the table does not have: they have no quota in its pool. */
export function WithoutQuota({ nodes, pool }: { nodes: readonly TreeNode[]; pool: string }) {
  if (nodes.length === 0) return null;
  return (
    <details className="card without-quota">
      <summary>
        {formatCount(nodes.length)} {nodes.length === 1 ? "node" : "nodes"} without a quota in {pool}
      </summary>
      <ul>
        {nodes.map((node) => (
          <li key={node.id} className="breaks">
            <Link to="/quotas" search={(before) => ({ ...before, node: node.path })}>
              {node.path}
            </Link>{" "}
            <span className="small dim">
              {node.kind}
              {node.archived_at !== null && ", archived"}
            </span>
          </li>
        ))}
      </ul>
    </details>
  );
}

function None() {
  return (
    <span className="faint">
      <span aria-hidden="true">·</span>
      <span className="visually-hidden">none</span>
    </span>
  );
}
