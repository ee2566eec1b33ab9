import { Button } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";
import { Link, useSearch } from "@tanstack/react-router";

import { chargebackJobsQuery } from "../api/queries";
import type { ChargebackJob } from "../api/types";
import { may } from "../session/access";
import { useSession } from "../session/useSession";
import { CliLine } from "../ui/CliLine";
import { Empty, isSettled, Lines, QueryView } from "../ui/states";
import { DEVICES, deviceTime, formatCost, headOf, hoursUnder } from "../ui/units";
import { usePageTitle } from "../ui/usePageTitle";
import { NoCosts } from "./NoCosts";
import { useChargebackCurrency } from "./useChargebackCurrency";
import { useJobsPeriod } from "./useJobsPeriod";
import "../quotas/quota-bar.css";
import "./billing.css";

/** The jobs that make one number of the chargeback, and their sum, which is that number. */
export function ChargebackJobsPage() {
  const { as_of, pool, usage } = useSearch({ from: "/shell/chargeback/jobs" });
  const { start, end, label, node } = useJobsPeriod();
  usePageTitle("Jobs behind a charge");
  const jobs = useInfiniteQuery(
    chargebackJobsQuery({
      start,
      end,
      node,
      // Until the same moment as the report, so that the sums agree.
      ...(as_of ? { as_of } : {}),
      ...(pool ? { pool } : {}),
      ...(usage ? { usage_class: usage } : {}),
    }),
  );
  const command = [
    `tidegate report chargeback --start ${start} --end ${end} --team ${node} --jobs`,
    pool && `--pool ${pool}`,
    usage && `--usage-class ${usage}`,
    as_of && `--as-of ${as_of}`,
  ]
    .filter(Boolean)
    .join(" ");
  return (
    <>
      <p className="sub">
        <Link to="/chargeback" search={{ period: "custom", start, end }}>
          ‹ Chargeback
        </Link>
      </p>
      <h1>
        {node} · {label}
      </h1>
      <p className="sub">
        {usage ?? "guaranteed and borrowed"} use{pool && ` of pool ${pool}`}, job by job
      </p>
      {jobs.error && isSettled(jobs.error) ? (
        <NoCosts node={node} />
      ) : (
        <QueryView
          query={jobs}
          loading={
            <div className="card">
              <Lines count={8} />
            </div>
          }
        >
          {(data) => {
            const items = data.pages.flatMap((page) => page.items);
            return (
              <div className="rows">
                <div className="card">
                  {items.length === 0 ? (
                    <Empty>No job ran here in this period.</Empty>
                  ) : (
                    <JobRows items={items} isWhole={!jobs.hasNextPage} />
                  )}
                </div>
                <div className="inline">
                  {jobs.hasNextPage && (
                    <Button
                      variant="default"
                      loading={jobs.isFetchingNextPage}
                      onClick={() => void jobs.fetchNextPage()}
                    >
                      Show more
                    </Button>
                  )}
                  <CliLine command={command} />
                </div>
              </div>
            );
          }}
        </QueryView>
      )}
    </>
  );
}

function JobRows({ items, isWhole }: { items: readonly ChargebackJob[]; isWhole: boolean }) {
  const session = useSession();
  const currency = useChargebackCurrency();
  const head = headOf(items);
  const totals = DEVICES.map((device) => ({ device, of: items.filter((item) => item.device === device) }));
  return (
    <table aria-label="Jobs behind the charge">
      <thead>
        <tr>
          <th scope="col">Job</th>
          <th scope="col" className="hide">
            Team
          </th>
          <th scope="col" className="hide">
            User
          </th>
          <th scope="col">Use</th>
          <th scope="col" className="n hide">
            Attempts
          </th>
          <th scope="col" className="n">
            {deviceTime(head, "h")}
          </th>
          <th scope="col" className="n">
            Cost
          </th>
        </tr>
      </thead>
      <tbody>
        {items.map((item) => (
          <tr key={`${item.job} ${item.pool} ${item.usage_class}`}>
            <th scope="row">
              {may(session, "view_jobs", item.team) ? (
                <Link to="/jobs/$jobId" params={{ jobId: item.job }}>
                  {item.name}
                </Link>
              ) : (
                item.name
              )}
            </th>
            <td className="hide">{item.team}</td>
            <td className="hide">{item.user}</td>
            <td>
              <span className={item.usage_class === "borrowed" ? "pill borrow" : "pill"}>{item.usage_class}</span>
            </td>
            <td className="n hide">{item.attempts}</td>
            <td className="n">{hoursUnder(head, item.mgpu_s, item.device)}</td>
            <td className="n">{formatCost(item.cost_nano, currency)}</td>
          </tr>
        ))}
      </tbody>
      <tfoot>
        {totals
          .filter(({ of }) => of.length > 0)
          .map(({ device, of }) => (
            <tr key={device}>
              <th scope="row">{isWhole ? "Total" : "Total so far"}</th>
              <td className="hide" />
              <td className="hide" />
              <td />
              <td className="n hide" />
              <td className="n">{hoursUnder(head, sumOf(of, (item) => item.mgpu_s), device)}</td>
              <td className="n">{formatCost(sumOf(of, (item) => item.cost_nano), currency)}</td>
            </tr>
          ))}
      </tfoot>
    </table>
  );
}

function sumOf(items: readonly ChargebackJob[], value: (item: ChargebackJob) => number): bigint {
  return items.reduce((sum, item) => sum + BigInt(value(item)), 0n);
}
