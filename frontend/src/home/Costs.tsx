import { Button } from "@mantine/core";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Fragment } from "react";

import { chargebackQuery } from "../api/queries";
import { thisMonth } from "../billing/period";
import { reconciliationsQuery, type Reconciliation } from "../billing/reconciliationQueries";
import { byCurrency, totalsOf, type CurrencyReport } from "../billing/totals";
import { CliLine } from "../ui/CliLine";
import { useNowMs } from "../ui/now";
import { Lines, QueryView } from "../ui/states";
import { capitalised, deviceTime, formatCost, formatCount, formatGpuHours, formatShare } from "../ui/units";

const TEAMS_SHOWN = 5;

/** Cost and use of the running month, its reconciliation, and the teams with the highest cost. */
export function Costs({ scope }: { scope: string | undefined }) {
  const period = thisMonth(useNowMs());
  const report = useQuery({
    ...chargebackQuery({
      start: period.start,
      end: period.end,
      group_by: "team",
      ...(scope ? { team: scope } : {}),
    }),
    placeholderData: keepPreviousData,
  });
  return (
    <section className="card" aria-label="Costs">
      <div className="spread">
        <h2>Costs · {period.label}</h2>
        <Button component={Link} to="/chargeback" size="xs">
          Chargeback
        </Button>
      </div>
      <QueryView query={report} loading={<Lines count={3} label="Loading the costs" />}>
        {(data) => (
          <div className="stack">
            <table className="facts">
              <tbody>
                <tr>
                  <th scope="row">Cost so far</th>
                  <td>
                    {byCurrency(data).map(({ currency, totals }) => (
                      <div key={currency}>{formatCost(totals.cost_nano, currency)}</div>
                    ))}
                  </td>
                </tr>
                {totalsOf(data).map((each) => (
                  <Fragment key={each.device}>
                    <tr>
                      <th scope="row">{capitalised(deviceTime(each.device, "hours"))} guaranteed</th>
                      <td>{formatGpuHours(each.guaranteed_mgpu_s)}</td>
                    </tr>
                    <tr>
                      <th scope="row">{capitalised(deviceTime(each.device, "hours"))} borrowed</th>
                      <td>{formatGpuHours(each.borrowed_mgpu_s)}</td>
                    </tr>
                  </Fragment>
                ))}
                <tr>
                  <th scope="row">Jobs</th>
                  <td>{formatCount(data.totals.jobs)}</td>
                </tr>
                <ReconciledDays start={period.start} />
              </tbody>
            </table>
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
                command={`tidegate report chargeback --start ${period.start} --end ${period.end}${scope ? ` --team ${scope}` : ""}`}
              />
            </div>
          </div>
        )}
      </QueryView>
    </section>
  );
}

/** How many days of the period the clusters' own accounts confirm. */
function ReconciledDays({ start }: { start: string }) {
  const days = useQuery(reconciliationsQuery);
  const inPeriod = (days.data ?? []).filter(({ day }) => day >= start.slice(0, 10));
  const count = (status: Reconciliation["status"]) => inPeriod.filter((day) => day.status === status).length;
  const red = count("red");
  const open = count("pending") + count("unavailable");
  if (inPeriod.length === 0) return null;
  return (
    <tr>
      <th scope="row">Reconciliation</th>
      <td>
        <Link to="/chargeback">
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
      </td>
    </tr>
  );
}

/** The teams with the highest cost in one currency. */
function TopTeams({ part }: { part: CurrencyReport }) {
  const costs = new Map<string, number>();
  for (const row of part.rows) costs.set(row.node, (costs.get(row.node) ?? 0) + row.cost_nano);
  const top = [...costs].sort(([a, one], [b, other]) => other - one || (a < b ? -1 : 1)).slice(0, TEAMS_SHOWN);
  if (top.length === 0) return null;
  const title = `Teams with the highest cost${part.currency === null ? "" : ` in ${part.currency}`}`;
  return (
    <table aria-label={title}>
      <thead>
        <tr>
          <th scope="col">{title}</th>
          <th scope="col" className="n">
            Cost
          </th>
          <th scope="col" className="n hide">
            Of the total
          </th>
        </tr>
      </thead>
      <tbody>
        {top.map(([team, costNano]) => (
          <tr key={team}>
            <th scope="row">
              <Link to="/chargeback" search={{ scope: team }}>
                {team}
              </Link>
            </th>
            <td className="n">{formatCost(costNano, part.currency)}</td>
            <td className="n hide">{formatShare(costNano, part.totals.cost_nano)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
