import { Button } from "@mantine/core";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { Link, useSearch } from "@tanstack/react-router";
import { useState } from "react";

import { treeQuery } from "../api/queries";
import type { Adjustment, Dispute } from "../api/types";
import { isWithin, may } from "../session/access";
import { useSession } from "../session/useSession";
import { DataTable } from "../ui/DataTable";
import { Page } from "../ui/Page";
import { PagedCard } from "../ui/PagedCard";
import { Empty } from "../ui/states";
import { Time } from "../ui/Time";
import { formatMoney } from "../ui/units";
import { AdjustmentDialog } from "./AdjustmentDialog";
import { DecisionDialog, type Decision } from "./DecisionDialog";
import { adjustmentsQuery, disputesQuery } from "./queries";
import { RowDisputeDialog } from "./RowDisputeDialog";
import { ThresholdDialog } from "./ThresholdDialog";
import "./adjustments.css";

const STATUS_WORDS: Record<Adjustment["status"] | Dispute["status"], string> = {
  pending: "waits for a second person",
  done: "done",
  approved: "approved",
  rejected: "rejected",
  withdrawn: "withdrawn",
  expired: "expired",
  open: "open",
  accepted: "refunded",
  declined: "declined",
};

/** Charges and credits beside use, and disputes about charges, with their decisions. */
export function AdjustmentsPage() {
  const { scope } = useSearch({ from: "/shell/adjustments" });
  const session = useSession();
  const tree = useQuery(treeQuery);
  const adjustments = useInfiniteQuery(adjustmentsQuery(scope));
  const disputes = useInfiniteQuery(disputesQuery(scope));
  const [isAdding, setAdding] = useState(false);
  const [isDisputing, setDisputing] = useState(false);
  const [isChanging, setChanging] = useState(false);
  const [decision, setDecision] = useState<Decision | null>(null);
  const inScope = (tree.data ?? []).filter(
    (node) => node.kind === "team" && node.archived_at === null && isWithin(node.path, scope ?? ""),
  );
  const teams = inScope.filter((node) => may(session, "manage_prices", node.organization));
  const disputable = inScope.filter((node) => may(session, "manage_jobs", node.path));
  const organization = (tree.data ?? []).find(
    ({ kind, path }) => kind === "organization" && isWithin(scope ?? path, path) && may(session, "manage_prices", path),
  );
  const node = scope ? ` --node ${scope}` : "";
  return (
    <Page
      title="Adjustments"
      lead="Charges and credits beside use, and disputes about charges."
      actions={
        <div className="inline">
          {organization && (
            <Button variant="default" onClick={() => setChanging(true)}>
              Threshold…
            </Button>
          )}
          {disputable.length > 0 && (
            <Button variant="default" onClick={() => setDisputing(true)}>
              Dispute a charge…
            </Button>
          )}
          {teams.length > 0 && <Button onClick={() => setAdding(true)}>New adjustment…</Button>}
        </div>
      }
    >
      <div className="rows">
        <h2>Disputes</h2>
        <PagedCard
          query={disputes}
          label="disputes"
          lines={4}
          command={`tidegate disputes list${node}`}
          empty={
            <Empty>No disputes. The page of a job disputes the charge of an attempt, this page that of a month.</Empty>
          }
        >
          {(items) => <DisputeTable disputes={items} onDecide={setDecision} />}
        </PagedCard>
        <h2>Adjustments</h2>
        <PagedCard
          query={adjustments}
          label="adjustments"
          lines={4}
          command={`tidegate adjustments list${node}`}
          empty={<Empty>No adjustments. People with finance rights make them.</Empty>}
        >
          {(items) => <AdjustmentTable adjustments={items} onDecide={setDecision} />}
        </PagedCard>
      </div>
      {isAdding && <AdjustmentDialog teams={teams} onClose={() => setAdding(false)} />}
      {isDisputing && <RowDisputeDialog teams={disputable} onClose={() => setDisputing(false)} />}
      {isChanging && organization && (
        <ThresholdDialog organization={organization} onClose={() => setChanging(false)} />
      )}
      {decision && <DecisionDialog decision={decision} onClose={() => setDecision(null)} />}
    </Page>
  );
}

function DisputeTable({ disputes, onDecide }: { disputes: readonly Dispute[]; onDecide: (decision: Decision) => void }) {
  return (
    <DataTable
      label="Disputes"
      className="adjustments"
      rows={disputes}
      rowKey={({ id }) => id}
      columns={[
        {
          header: "Charge",
          isHeading: true,
          cell: (dispute) => (
            <>
              {dispute.job === null ? (
                dispute.subject
              ) : (
                <Link to="/jobs/$jobId" params={{ jobId: dispute.job }} search={{ tab: "attempts" }}>
                  {dispute.subject}
                </Link>
              )}
              <div className="small dim">{dispute.team}</div>
              <div className="small faint">
                {dispute.asked_by}: “{dispute.reason}”
              </div>
              {dispute.note !== "" && (
                <div className="small faint">
                  {dispute.decided_by}: “{dispute.note}”
                </div>
              )}
            </>
          ),
        },
        { header: "Charged", isRight: true, cell: (one) => formatMoney(one.charged_nano, one.currency) },
        {
          header: "Refund",
          isRight: true,
          cell: (one) => (one.refund_nano === null ? "–" : formatMoney(one.refund_nano, one.currency)),
        },
        { header: "Opened", only: "wide", cell: ({ asked_at }) => <Time at={asked_at} /> },
        { header: "Status", only: "wide", cell: ({ status }) => <Status status={status} /> },
        {
          header: <span className="visually-hidden">Decision</span>,
          isRight: true,
          cell: (dispute) => (
            <span className="inline end">
              {dispute.may_decide && (
                <>
                  <Button size="compact-sm" onClick={() => onDecide({ kind: "dispute", dispute, act: "accept" })}>
                    Refund…
                  </Button>
                  <Button
                    size="compact-sm"
                    variant="default"
                    onClick={() => onDecide({ kind: "dispute", dispute, act: "decline" })}
                  >
                    Decline…
                  </Button>
                </>
              )}
              {dispute.may_withdraw && (
                <Button
                  size="compact-sm"
                  variant="default"
                  onClick={() => onDecide({ kind: "dispute", dispute, act: "withdraw" })}
                >
                  Withdraw…
                </Button>
              )}
            </span>
          ),
        },
      ]}
    />
  );
}

function AdjustmentTable({
  adjustments,
  onDecide,
}: {
  adjustments: readonly Adjustment[];
  onDecide: (decision: Decision) => void;
}) {
  return (
    <DataTable
      label="Adjustments"
      className="adjustments"
      rows={adjustments}
      rowKey={({ id }) => id}
      columns={[
        {
          header: "Adjustment",
          isHeading: true,
          cell: (one) => (
            <>
              {one.team}
              {one.user !== null && `, ${one.user}`}
              <div className="small faint">
                {one.asked_by}: “{one.reason}”
              </div>
              {one.is_correction && <div className="small faint">correction of a closed month</div>}
              {one.note !== "" && (
                <div className="small faint">
                  {one.decided_by}: “{one.note}”
                </div>
              )}
            </>
          ),
        },
        { header: "Month", only: "wide", cell: ({ month }) => month },
        { header: "Amount", isRight: true, cell: (one) => formatMoney(one.amount_nano, one.currency) },
        {
          header: "Status",
          only: "wide",
          cell: ({ status, expires_at }) => (
            <>
              <Status status={status} />
              {status === "pending" && expires_at && (
                <div className="small faint">
                  expires <Time at={expires_at} />
                </div>
              )}
            </>
          ),
        },
        {
          header: <span className="visually-hidden">Decision</span>,
          isRight: true,
          cell: (adjustment) => (
            <span className="inline end">
              {adjustment.may_approve && (
                <>
                  <Button size="compact-sm" onClick={() => onDecide({ kind: "adjustment", adjustment, act: "approve" })}>
                    Approve…
                  </Button>
                  <Button
                    size="compact-sm"
                    variant="default"
                    onClick={() => onDecide({ kind: "adjustment", adjustment, act: "reject" })}
                  >
                    Reject…
                  </Button>
                </>
              )}
              {adjustment.may_withdraw && (
                <Button
                  size="compact-sm"
                  variant="default"
                  onClick={() => onDecide({ kind: "adjustment", adjustment, act: "withdraw" })}
                >
                  Withdraw…
                </Button>
              )}
            </span>
          ),
        },
      ]}
    />
  );
}

function Status({ status }: { status: Adjustment["status"] | Dispute["status"] }) {
  const waits = status === "pending" || status === "open";
  return <span className={waits ? "pill wait" : undefined}>{STATUS_WORDS[status]}</span>;
}
