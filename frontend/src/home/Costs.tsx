import { Button } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Fragment } from "react";

import { groupsQuery } from "../billing/groupQueries";
import { asDays, thisMonth } from "../billing/period";
import { reconciledMonthQuery, type Reconciliation } from "../billing/reconciliationQueries";
import { byCurrency, totalsOf, type CurrencyReport } from "../billing/totals";
import { Card } from "../ui/Card";
import { CliLine } from "../ui/CliLine";
import { DataTable } from "../ui/DataTable";
import { Fact, Facts } from "../ui/Facts";
import { useNowMs } from "../ui/now";
import { Lines, QueryView } from "../ui/states";
import { capitalised, deviceTime, formatCost, formatCount, formatGpuHours, formatShare } from "../ui/units";

const TEAMS_SHOWN = 5;

/** Cost and use of the running month, its reconciliation, and the teams with the highest cost. */
export function Costs({ scope }: { scope: string | undefined }) {
  const period = thisMonth(useNowMs());
  const days = asDays(period);
  const report = useQuery(groupsQuery(["team"], { ...days, ...(scope ? { node: scope } : {}) }));
  return (
    <Card label="Costs">
      <div className="spread">
        <h2>Costs · {period.label}</h2>
        <Button component={Link} to="/chargeback" size="xs">
          Chargeback
        </Button>
      </div>
      <QueryView query={report} loading={<Lines count={3} label="Loading the costs" />}>
        {(data) => (
          <div className="stack">
            <Facts>
                <Fact name="Cost so far">
                  {byCurrency(data).map(({ currency, totals }) => (
                    <div key={currency}>{formatCost(totals.cost_nano, currency)}</div>
                  ))}
                </Fact>
                {totalsOf(data).map((each) => (
                  <Fragment key={each.device}>
                    <Fact name={`${capitalised(deviceTime(each.device, "hours"))} guaranteed`}>
                      {formatGpuHours(each.guaranteed_mgpu_s)}
                    </Fact>
                    <Fact name={`${capitalised(deviceTime(each.device, "hours"))} borrowed`}>
                      {formatGpuHours(each.borrowed_mgpu_s + each.unpaid_mgpu_s)}
                    </Fact>
                  </Fragment>
                ))}
                <Fact name="Jobs">{formatCount(data.totals.jobs)}</Fact>
                <ReconciledDays start={period.start} />
              </Facts>
            {byCurrency(data).map((part) => (
              <TopTeams key={part.currency} part={part} />
            ))}
            <div className="spread">
              <span className="inline">
                <Link to="/chargeback" search={{ period: "last-month" }}>
                  Last month
                </Link>
                <Link to="/jobs">All jobs</Link>
              </span>
              <CliLine
                command={`tidegate report chargeback --start ${days.start} --end ${days.end}${scope ? ` --team ${scope}` : ""}`}
              />
            </div>
          </div>
        )}
      </QueryView>
    </Card>
  );
}

/** How many days of the period the clusters' own accounts confirm. */
function ReconciledDays({ start }: { start: string }) {
  const days = useQuery(reconciledMonthQuery(start.slice(0, 7)));
  const inPeriod = days.data ?? [];
  const count = (status: Reconciliation["status"]) => inPeriod.filter((day) => day.status === status).length;
  const red = count("red");
  const open = count("pending") + count("unavailable");
  if (inPeriod.length === 0) return null;
  return (
    <Fact name="Reconciliation">
        <Link to="/reconciliation">
          {red > 0 ? (
            <span className="bad-text">
              ▲ {red} {red === 1 ? "day differs" : "days differ"}
            </span>
          ) : (
            "no day differs"
          )}
        </Link>
        <span className="faint">
          {" "}
          · {count("green")} agree{open > 0 && `, ${open} not compared`}
        </span>
    </Fact>
  );
}

/** The teams with the highest cost in one currency. */
function TopTeams({ part }: { part: CurrencyReport }) {
  const costs = new Map<string, number>();
  for (const { keys, cost_nano } of part.rows) costs.set(keys.team ?? "", (costs.get(keys.team ?? "") ?? 0) + cost_nano);
  const top = [...costs].sort(([a, one], [b, other]) => other - one || (a < b ? -1 : 1)).slice(0, TEAMS_SHOWN);
  if (top.length === 0) return null;
  const title = `Teams with the highest cost${part.currency === null ? "" : ` in ${part.currency}`}`;
  return (
    <DataTable
      label={title}
      rows={top}
      rowKey={([team]) => team}
      columns={[
        {
          header: title,
          isHeading: true,
          cell: ([team]) => (
            <Link to="/chargeback" search={{ scope: team }}>
              {team}
            </Link>
          ),
        },
        {
          header: "Cost",
          isRight: true,
          cell: ([, costNano]) => formatCost(costNano, part.currency),
        },
        {
          header: "Of the total",
          isRight: true,
          only: "wide",
          cell: ([, costNano]) => formatShare(costNano, part.totals.cost_nano),
        },
      ]}
    />
  );
}
