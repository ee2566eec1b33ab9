import { Button } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";

import type { CreditTransfer, Pool, TeamCredits, TreeNode } from "../api/types";
import { Card } from "../ui/Card";
import { DataTable } from "../ui/DataTable";
import { QueryView } from "../ui/states";
import { Time } from "../ui/Time";
import { deviceTime } from "../ui/units";
import { formatHours, slugOf } from "./amounts";
import { creditTransfersQuery } from "./queries";
import { DecisionDialog, type Decision } from "./TransferDialogs";

const STATUS_WORDS: Record<CreditTransfer["status"], string> = {
  pending: "waits for approval",
  done: "done",
  approved: "approved",
  rejected: "rejected",
  withdrawn: "withdrawn",
  expired: "expired",
};
const SHOWN_MAX = 6;

/** Pending transfers that I may decide, of all teams of the organization. Nothing without any. */
export function InboxCard({ organization, pool }: { organization: string; pool: Pool }) {
  const pending = useQuery(creditTransfersQuery({ organization, pool: pool.name, status: "pending" }));
  const [decision, setDecision] = useState<Decision | null>(null);
  const mine = (pending.data?.items ?? []).filter((transfer) => transfer.may_approve);
  if (mine.length === 0) return null;
  const hours = deviceTime(pool.device, "h");
  return (
    <Card label="Waiting for your approval" tone="warn" tabIndex={0}>
      <h2>Waiting for your approval</h2>
      <DataTable
        rows={mine}
        rowKey={({ id }) => id}
        columns={[
          {
            header: "Transfer",
            isHeading: true,
            cell: (transfer) => (
              <>
                <span title={`${transfer.sender} → ${transfer.recipient}`}>
                  {slugOf(transfer.sender)} → {slugOf(transfer.recipient)}
                </span>
                <div className="small faint credit-reason">
                  {transfer.asked_by}: “{transfer.reason}”
                </div>
              </>
            ),
          },
          { header: hours, isRight: true, cell: ({ amount_ugpu_s }) => formatHours(amount_ugpu_s, true) },
          { header: "Expires", cell: ({ expires_at }) => expires_at && <Time at={expires_at} /> },
          {
            header: "Decision",
            cell: (transfer) => (
              <span className="inline">
                <Button size="compact-sm" onClick={() => setDecision({ transfer, act: "approve" })}>
                  Approve…
                </Button>
                <Button size="compact-sm" variant="default" onClick={() => setDecision({ transfer, act: "reject" })}>
                  Reject…
                </Button>
              </span>
            ),
          },
        ]}
      />
      {decision && <DecisionDialog decision={decision} device={pool.device} onClose={() => setDecision(null)} />}
    </Card>
  );
}

/** What a team may transfer and to whom, and its latest transfers. */
export function TransfersCard({
  team,
  mine,
  pool,
  onTransfer,
}: {
  team: TreeNode;
  mine: TeamCredits;
  pool: Pool;
  /** Opens the form; undefined for those without the right. */
  onTransfer: (() => void) | undefined;
}) {
  const transfers = useQuery(creditTransfersQuery({ team: team.path, pool: pool.name, limit: SHOWN_MAX }));
  const [decision, setDecision] = useState<Decision | null>(null);
  const hours = deviceTime(pool.device, "h");
  const rules = [
    { to: `Inside ${slugOf(departmentOf(team))}`, how: "by its administrator, at once" },
    { to: "To other departments", how: "with their approval" },
    { to: `Most that ${slugOf(team.path)} can transfer`, how: `${formatHours(mine.transferable_ugpu_s)} ${hours}` },
  ];
  return (
    <Card label="Transfer credits" tabIndex={0}>
      <h2>Transfer credits</h2>
      <DataTable
        className="flush"
        rows={rules}
        rowKey={({ to }) => to}
        columns={[
          { header: "Transfer", isHeading: true, cell: ({ to }) => to },
          { header: "Rule", isRight: true, cell: ({ how }) => how },
        ]}
      />
      {onTransfer ? (
        <p className="more">
          <Button variant="default" disabled={mine.transferable_ugpu_s === 0} onClick={onTransfer}>
            Transfer credits…
          </Button>
        </p>
      ) : (
        <p className="small dim more">The administrators of {slugOf(departmentOf(team))} transfer its teams' credits.</p>
      )}
      <QueryView query={transfers} loading={null}>
        {({ items }) =>
          items.length > 0 && (
            <DataTable
              className="flush more"
              rows={items}
              rowKey={({ id }) => id}
              columns={[
                {
                  header: "Latest",
                  isHeading: true,
                  title: ({ reason, note }) => (note === "" ? reason : `${reason} · ${note}`),
                  cell: (transfer) => <Latest transfer={transfer} team={team.path} />,
                },
                {
                  header: hours,
                  isRight: true,
                  cell: ({ sender, amount_ugpu_s }) =>
                    `${sender === team.path ? "−" : "+"}${formatHours(amount_ugpu_s, true)}`,
                },
                {
                  header: "Status",
                  isRight: true,
                  cell: (transfer) =>
                    transfer.may_withdraw ? (
                      <Button
                        size="compact-sm"
                        variant="default"
                        onClick={() => setDecision({ transfer, act: "withdraw" })}
                      >
                        Withdraw…
                      </Button>
                    ) : (
                      <span className={transfer.status === "pending" ? "pill borrow" : "dim"}>
                        {STATUS_WORDS[transfer.status]}
                      </span>
                    ),
                },
              ]}
            />
          )
        }
      </QueryView>
      {decision && <DecisionDialog decision={decision} device={pool.device} onClose={() => setDecision(null)} />}
    </Card>
  );
}

function Latest({ transfer, team }: { transfer: CreditTransfer; team: string }) {
  return (
    <>
      {transfer.sender === team ? `to ${slugOf(transfer.recipient)}` : `from ${slugOf(transfer.sender)}`}
      <div className="small faint credit-reason">
        <Time at={transfer.asked_at} /> by {transfer.asked_by} · “{transfer.reason}”
        {transfer.note !== "" && ` · ${transfer.decided_by}: “${transfer.note}”`}
      </div>
    </>
  );
}

/** The node above a team: its department, or the organization. */
export function departmentOf({ path }: TreeNode): string {
  return path.slice(0, path.lastIndexOf("/"));
}
