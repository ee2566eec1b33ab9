import { Anchor, SegmentedControl } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";

import { treeQuery } from "../api/queries";
import type { Period, TreeNode } from "../api/types";
import { monthLabel } from "../credits/months";
import { may } from "../session/access";
import { useSession } from "../session/useSession";
import { Card } from "../ui/Card";
import { CliLine } from "../ui/CliLine";
import { DataTable } from "../ui/DataTable";
import { Page } from "../ui/Page";
import { Empty, Lines, QueryView } from "../ui/states";
import { Time } from "../ui/Time";
import { CodesCard } from "./CodesCard";
import { MonthCard } from "./MonthCard";
import { periodsQuery } from "./queries";
import "./periods.css";

/** Months of an organization: what blocks closing one, its charges, and its statements. */
export function PeriodsPage() {
  const { scope, organization: chosen } = useSearch({ from: "/shell/periods" });
  const navigate = useNavigate({ from: "/periods" });
  const session = useSession();
  const tree = useQuery(treeQuery);
  return (
    <Page title="Periods" lead="Finance closes each month after its grace. Closed months never change.">
      <QueryView query={tree} loading={<Loading />}>
        {(nodes) => {
          const organizations = nodes.filter(
            (node) => node.kind === "organization" && may(session, "view_costs", node.path),
          );
          const slug = chosen ?? scope?.split("/")[0];
          const organization = organizations.find((node) => node.slug === slug) ?? organizations[0];
          if (organization === undefined) {
            return (
              <Card>
                <Empty>You see the costs of no whole organization. Finance and administrators do.</Empty>
              </Card>
            );
          }
          return (
            <div className="rows">
              {organizations.length > 1 && (
                <SegmentedControl
                  className="organizations"
                  aria-label="Organization"
                  data={organizations.map((node) => ({ value: node.slug, label: node.name }))}
                  value={organization.slug}
                  onChange={(next) => void navigate({ search: (before) => ({ ...before, organization: next, month: undefined }) })}
                />
              )}
              <Months key={organization.id} organization={organization} />
              <CodesCard organization={organization} />
            </div>
          );
        }}
      </QueryView>
    </Page>
  );
}

function Months({ organization }: { organization: TreeNode }) {
  const { month: chosen } = useSearch({ from: "/shell/periods" });
  const months = useQuery(periodsQuery(organization.id));
  return (
    <QueryView query={months} loading={<Loading />}>
      {(items) => {
        const next = items.findLast((one) => one.state !== "closed") ?? items[0];
        if (next === undefined) {
          return (
            <Card>
              <Empty cli="tidegate periods list">Nothing was used yet, so there is no month.</Empty>
            </Card>
          );
        }
        const month = items.find((one) => one.month === chosen) ?? next;
        return (
          <>
            <MonthTable months={items} current={month.month} />
            <MonthCard key={month.month} organization={organization} period={month} />
          </>
        );
      }}
    </QueryView>
  );
}

const TONES: Record<Period["state"], string> = { open: "", grace: "warn", due: "warn", closed: "good" };

function MonthTable({ months, current }: { months: readonly Period[]; current: string }) {
  return (
    <Card label="Months">
      <DataTable
        label="Months"
        className="months"
        rows={months}
        rowKey={(row) => row.month}
        isCurrent={(row) => row.month === current}
        columns={[
          {
            header: "Month",
            isHeading: true,
            cell: (row) => (
              <Anchor
                renderRoot={(props) => (
                  <Link {...props} from="/periods" to="." search={(before) => ({ ...before, month: row.month })} />
                )}
              >
                {monthLabel(row.month)}
              </Anchor>
            ),
          },
          { header: "State", cell: (row) => <span className={`pill ${TONES[row.state]}`}>{row.state}</span> },
          {
            header: "Blocked by",
            isRight: true,
            cell: (row) => (row.unconfirmed.length === 0 ? "–" : daysText(row.unconfirmed.length)),
          },
          {
            header: "Close",
            only: "wide",
            cell: (row) =>
              row.closed_at ? (
                <>
                  <Time at={row.closed_at} show="exact" /> <span className="faint">by {row.closed_by}</span>
                </>
              ) : (
                <>
                  from <Time at={row.due_at} show="exact" />
                </>
              ),
          },
        ]}
      />
      <p className="small dim more">
        A month is open until its end, in grace for 72 hours, then due. Days that no cluster confirmed block it.
      </p>
      <CliLine command="tidegate periods list" />
    </Card>
  );
}

/** "1 day", "12 days". */
export function daysText(count: number): string {
  return `${count} ${count === 1 ? "day" : "days"}`;
}

function Loading() {
  return (
    <Card>
      <Lines count={6} label="Loading the months" />
    </Card>
  );
}
