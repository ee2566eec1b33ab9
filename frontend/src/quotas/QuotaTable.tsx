import { Link } from "@tanstack/react-router";

import type { NodeSummary, Quota, TreeNode } from "../api/types";
import { formatSignedHours } from "../credits/amounts";
import { levelText } from "../shares/levels";
import { DataTable } from "../ui/DataTable";
import { deviceTime, formatCount, formatGpus, headOf } from "../ui/units";
import { QuotaBar, QuotaLegend } from "./QuotaBar";
import { Sparkline } from "./Sparkline";
import { indented, quotaRows } from "./tree";
import { BORROWED_HINT, commonScale, formatLent, notInForce, quotaUse } from "./use";
import "./quota-table.css";

/** The tree with its bars, all on one scale. */
export function QuotaTable({
  quotas,
  summaries,
  archived,
  closed,
  onToggle,
}: {
  quotas: readonly Quota[];
  /** Fair-share, credits and the last week by path; empty until they are there. */
  summaries: ReadonlyMap<string, NodeSummary>;
  /** Paths of the archived nodes: what is guaranteed there is not in force. */
  archived: ReadonlySet<string>;
  closed: ReadonlySet<string>;
  onToggle: (node: string) => void;
}) {
  const countedUse = (quota: Quota) => quotaUse(archived.has(quota.node) ? notInForce(quota) : quota);
  const scaleMgpu = commonScale(quotas.map(countedUse));
  const hasCredits = [...summaries.values()].some(({ credits_ugpu_s }) => credits_ugpu_s !== null);
  return (
    <>
      <DataTable
        className="quotas"
        rows={quotaRows(quotas, closed).map((row) => ({ ...row, use: countedUse(row.quota), summary: summaries.get(row.quota.node) }))}
        rowKey={({ quota }) => quota.id}
        columns={[
          {
            header: "Node",
            isHeading: true,
            title: ({ quota }) => quota.node,
            style: ({ level }) => indented(level),
            cell: ({ quota, hasChildren }) => (
              <>
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
                {archived.has(quota.node) && <div className="small dim archived">archived</div>}
              </>
            ),
          },
          {
            header: "In use against guarantee",
            headClass: "wide",
            cell: ({ use }) => <QuotaBar use={use} scaleMgpu={scaleMgpu} />,
          },
          {
            header: "In use",
            isRight: true,
            cell: ({ use }) => (
              <>
                {formatGpus(use.inUseMgpu)}
                <div className="only-phone small faint">of {formatGpus(use.guaranteedMgpu)}</div>
              </>
            ),
          },
          { header: "Guaranteed", isRight: true, only: "wide", cell: ({ use }) => formatGpus(use.guaranteedMgpu) },
          {
            header: "Borrowed / lent",
            hint: `Borrowed: ${BORROWED_HINT} Lent: what others use of the idle guarantee.`,
            isRight: true,
            only: "wide",
            cell: ({ use }) =>
              use.borrowedMgpu > 0 ? (
                <span className="pill borrow" title={`Borrowed: ${BORROWED_HINT}`}>
                  {formatGpus(use.borrowedMgpu)} borrowed
                </span>
              ) : use.lentMgpu > 0 ? (
                `${formatLent(use.lentMgpu)} lent`
              ) : (
                <None />
              ),
          },
          {
            header: "Waiting",
            isRight: true,
            only: "wide",
            cell: ({ use }) => (use.waitingMgpu > 0 ? formatGpus(use.waitingMgpu) : <None />),
          },
          summaries.size > 0 && {
            header: "Week",
            hint: "Average use of each of the last seven days.",
            only: "wide",
            cell: ({ summary }) => (summary === undefined ? <None /> : <Sparkline values={summary.week_mgpu} />),
          },
          hasCredits && {
            header: `Credits (${deviceTime(headOf(quotas), "h")})`,
            isRight: true,
            only: "wide",
            cell: ({ summary }) =>
              typeof summary?.credits_ugpu_s === "number" ? formatSignedHours(summary.credits_ugpu_s) : <None />,
          },
          summaries.size > 0 && {
            header: "Fair share",
            hint: "Part of the weight over part of the recent use, among siblings. Above 1 a node comes earlier.",
            isRight: true,
            only: "wide",
            cell: ({ quota, summary }) =>
              summary === undefined ? (
                <None />
              ) : (
                <Link to="/fair-share" search={(before) => ({ ...before, node: quota.node, pool: quota.pool })}>
                  {levelText(summary.level_permille)}
                </Link>
              ),
          },
        ]}
      />
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
