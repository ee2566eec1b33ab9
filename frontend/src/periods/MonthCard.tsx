import { Anchor, Button, Modal, Textarea } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";

import { client, unwrap } from "../api/client";
import type { Period, PeriodDetail, TreeNode } from "../api/types";
import { monthLabel } from "../credits/months";
import { may } from "../session/access";
import { useSession } from "../session/useSession";
import { Card } from "../ui/Card";
import { CliLine } from "../ui/CliLine";
import { DataTable } from "../ui/DataTable";
import { Fact, Facts } from "../ui/Facts";
import { Lines, QueryView } from "../ui/states";
import { Time } from "../ui/Time";
import { toastDone } from "../ui/toast";
import { formatCost, headOf, hoursUnder, deviceTime } from "../ui/units";
import { useReturnFocus } from "../ui/useReturnFocus";
import { periodQuery } from "./queries";
import { StatementsCard } from "./StatementsCard";

/** The most unconfirmed days that the page names. */
const DAYS_SHOWN = 20;

/** One month: how to close it, or its charges and statements. */
export function MonthCard({ organization, period }: { organization: TreeNode; period: Period }) {
  return (
    <>
      <h2>{monthLabel(period.month)}</h2>
      {period.state === "closed" ? (
        <ClosedMonth organization={organization} period={period} />
      ) : (
        <OpenMonth organization={organization} period={period} />
      )}
    </>
  );
}

function OpenMonth({ organization, period }: { organization: TreeNode; period: Period }) {
  const session = useSession();
  const [isAsked, setAsked] = useState(false);
  const days = period.unconfirmed;
  const mayClose = period.state === "due" && may(session, "manage_prices", organization.path);
  return (
    <Card label={`Closing ${period.month}`} tone={period.state === "due" && days.length > 0 ? "warn" : undefined}>
      <div className="spread">
        <p>{sentenceOf(period)}</p>
        {mayClose && (
          <Button onClick={() => setAsked(true)}>{days.length > 0 ? "Close anyway…" : "Close month…"}</Button>
        )}
      </div>
      {days.length > 0 && (
        <>
          <ul className="unconfirmed">
            {days.slice(0, DAYS_SHOWN).map((one) => (
              <li key={`${one.cluster} ${one.day}`}>
                <Anchor
                  renderRoot={(props) => (
                    <Link {...props} to="/reconciliation" search={{ month: one.day.slice(0, 7) }} />
                  )}
                >
                  {one.day} {one.cluster}: {one.status ?? "not compared"}
                </Anchor>
              </li>
            ))}
          </ul>
          {days.length > DAYS_SHOWN && <p className="small dim">{days.length - DAYS_SHOWN} more days.</p>}
        </>
      )}
      <CliLine command={`tidegate periods show ${period.month}`} />
      {isAsked && <CloseDialog organization={organization} period={period} onClose={() => setAsked(false)} />}
    </Card>
  );
}

function sentenceOf({ state, due_at, unconfirmed }: Period) {
  if (state === "grace") {
    return (
      <>
        Late facts still change this month. It may be closed <Time at={due_at} show="both" />.
      </>
    );
  }
  if (state === "open") return "This month is not over, or a month before it is not closed.";
  if (unconfirmed.length === 0) return "All days are confirmed. The month may be closed.";
  return "Some days are not confirmed by their clusters. Acknowledge them, or close the month with a reason.";
}

function CloseDialog({ organization, period, onClose }: { organization: TreeNode; period: Period; onClose: () => void }) {
  useReturnFocus();
  const queryClient = useQueryClient();
  const [reason, setReason] = useState("");
  const isBlocked = period.unconfirmed.length > 0;
  const close = useMutation({
    mutationFn: () =>
      unwrap(
        client.POST("/api/v1/organizations/{organization_id}/periods/{month}/close", {
          params: { path: { organization_id: organization.id, month: period.month } },
          body: isBlocked ? { reason: reason.trim() } : {},
        }),
      ),
    onSuccess: () => {
      void queryClient.invalidateQueries({ queryKey: ["reports"] });
      toastDone(`${monthLabel(period.month)} is closed`);
      onClose();
    },
  });
  return (
    <Modal
      opened
      onClose={onClose}
      title={`Close ${monthLabel(period.month)}`}
      closeButtonProps={{ "aria-label": "Close" }}
    >
      <form
        className="stack"
        onSubmit={(event) => {
          event.preventDefault();
          close.mutate();
        }}
      >
        <p>Its charges are stored as they are and never change. Late facts become corrections in the next month.</p>
        {isBlocked && (
          <Textarea
            label="Reason"
            description={`${period.unconfirmed.length} unconfirmed days. The reason stays with the month.`}
            maxLength={500}
            value={reason}
            onChange={(event) => setReason(event.currentTarget.value)}
            data-autofocus
          />
        )}
        {close.error && (
          <p role="alert" className="bad">
            {close.error.message}
          </p>
        )}
        <div className="inline end">
          <Button variant="default" onClick={onClose}>
            Back
          </Button>
          <Button type="submit" loading={close.isPending} disabled={isBlocked && reason.trim() === ""}>
            Close month
          </Button>
        </div>
      </form>
    </Modal>
  );
}

function ClosedMonth({ organization, period }: { organization: TreeNode; period: Period }) {
  const detail = useQuery(periodQuery(organization.id, period.month));
  return (
    <QueryView
      query={detail}
      loading={
        <Card>
          <Lines count={6} label="Loading the charges" />
        </Card>
      }
    >
      {(month) => (
        <>
          <Totals month={month} />
          <StatementsCard organization={organization} month={period.month} />
          <Charges month={month} />
        </>
      )}
    </QueryView>
  );
}

function Totals({ month }: { month: PeriodDetail }) {
  const currency = month.currency || null;
  const sum = (isCorrection: boolean) =>
    month.charges
      .filter((one) => one.is_correction === isCorrection)
      .reduce((total, one) => total + BigInt(one.cost_nano), 0n);
  const hasUnpriced = month.charges.some((one) => one.unpriced_mgpu_s !== 0);
  return (
    <Card label="Totals" tone="good">
      <Facts label="Totals" isLeft>
        <Fact name="Use of the month">{formatCost(sum(false), currency)}</Fact>
        <Fact name="Corrections of earlier months">{formatCost(sum(true), currency)}</Fact>
        <Fact name="Adjustments">{formatCost(month.adjustments_nano, currency)}</Fact>
        <Fact name="Total">
          <b>{formatCost(sum(false) + sum(true) + BigInt(month.adjustments_nano), currency)}</b>
        </Fact>
        <Fact name="Closed">
          {month.closed_at && <Time at={month.closed_at} show="exact" />} by {month.closed_by}
        </Fact>
        {month.reason && <Fact name="Reason">{month.reason}</Fact>}
        <Fact name="Digest">
          <code className="digest">{month.digest}</code>
        </Fact>
      </Facts>
      {hasUnpriced && <p className="small">Some use has no price and costs nothing. See Prices.</p>}
      <CliLine command={`tidegate periods show ${month.month}`} />
    </Card>
  );
}

function Charges({ month }: { month: PeriodDetail }) {
  const head = headOf(month.charges);
  return (
    <Card label="Charges">
      <h3>Charges</h3>
      <DataTable
        label="Charges"
        className="charges"
        rows={month.charges}
        rowKey={(_, index) => index}
        columns={[
          { header: "Team", isHeading: true, className: "path", cell: (row) => row.team, sortBy: (row) => row.team },
          { header: "Pool", only: "wide", cell: (row) => row.pool, sortBy: (row) => row.pool },
          {
            header: "Class",
            cell: (row) => (
              <>
                {row.usage_class}
                {row.is_correction && <span className="pill"> correction</span>}
              </>
            ),
            sortBy: (row) => row.usage_class,
          },
          {
            header: deviceTime(head, "hours"),
            isRight: true,
            only: "wide",
            cell: (row) => hoursUnder(head, row.mgpu_s, row.device),
            sortBy: (row) => row.mgpu_s,
          },
          {
            header: "Cost",
            isRight: true,
            cell: (row) => formatCost(row.cost_nano, month.currency || null),
            sortBy: (row) => row.cost_nano,
          },
        ]}
      />
    </Card>
  );
}
