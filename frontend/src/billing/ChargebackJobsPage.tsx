import { Button } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";
import { Link, useSearch } from "@tanstack/react-router";

import { chargebackJobsQuery } from "../api/queries";
import type { ChargebackJob } from "../api/types";
import { may } from "../session/access";
import { useSession } from "../session/useSession";
import { Card } from "../ui/Card";
import { CliLine } from "../ui/CliLine";
import { commandLine } from "../ui/command";
import { DataTable } from "../ui/DataTable";
import { Page } from "../ui/Page";
import { Empty, isSettled, Lines, QueryView } from "../ui/states";
import { DEVICES, deviceTime, formatCost, headOf, hoursUnder } from "../ui/units";
import { UNCODED } from "./dimensions";
import { NoCosts } from "./NoCosts";
import { useChargebackCurrency } from "./useChargebackCurrency";
import { useJobsPeriod } from "./useJobsPeriod";
import "../quotas/quota-bar.css";
import "./billing.css";

/** The jobs that make one number of the chargeback, and their sum, which is that number. */
export function ChargebackJobsPage() {
  const { as_of, pool, usage, user, cluster, priority, type, centre, project } = useSearch({ from: "/shell/chargeback/jobs" });
  const { start, end, label, node } = useJobsPeriod();
  const asked = {
    start,
    end,
    node,
    // Until the same moment as the report, so that the sums agree.
    ...(as_of ? { as_of } : {}),
    ...(pool ? { pool } : {}),
    ...(usage ? { usage_class: usage } : {}),
    ...(user ? { user } : {}),
    ...(cluster ? { cluster } : {}),
    ...(priority ? { priority_class: priority } : {}),
    ...(type ? { job_type: type } : {}),
    ...(centre ? { cost_centre: centre } : {}),
    ...(project ? { project_code: project } : {}),
  };
  const jobs = useInfiniteQuery(chargebackJobsQuery(asked));
  const command = commandLine("tidegate report chargeback --jobs", {
    start,
    end,
    team: node,
    pool,
    "usage-class": usage,
    user,
    cluster,
    "priority-class": priority,
    "job-type": type,
    "cost-centre": centre,
    "project-code": project,
    "as-of": as_of,
  });
  const filters = [
    pool && ` of pool ${pool}`,
    user && ` by ${user}`,
    cluster && ` on ${cluster}`,
    priority && ` of class ${priority}`,
    type && ` of type ${type}`,
    codeWords("cost centre", centre),
    codeWords("project code", project),
  ];
  return (
    <Page
      title="Jobs behind a charge"
      heading={`${node} · ${label}`}
      lead={`${USE_WORDS[usage ?? "all"]}${filters.filter(Boolean).join("")}, job by job`}
      up={
        <Link to="/chargeback" search={{ period: "custom", start, end }}>
          Chargeback
        </Link>
      }
    >
      {jobs.error && isSettled(jobs.error) ? (
        <NoCosts node={node} />
      ) : (
        <QueryView
          query={jobs}
          loading={
            <Card>
              <Lines count={8} />
            </Card>
          }
        >
          {(data) => {
            const items = data.pages.flatMap((page) => page.items);
            return (
              <div className="rows">
                <Card>
                  {items.length === 0 ? (
                    <Empty>No job ran here in this period.</Empty>
                  ) : (
                    <JobRows items={items} isWhole={!jobs.hasNextPage} />
                  )}
                </Card>
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
                  <Button
                    component="a"
                    href={`/api/v1/reports/chargeback/jobs?${new URLSearchParams({ ...asked, format: "csv" }).toString()}`}
                    download
                    variant="default"
                  >
                    Download CSV
                  </Button>
                  <CliLine command={command} />
                </div>
              </div>
            );
          }}
        </QueryView>
      )}
    </Page>
  );
}

function codeWords(kind: string, code: string | undefined): string | undefined {
  return code && (code === UNCODED ? ` without a ${kind}` : ` under the ${kind} ${code}`);
}

const USE_WORDS = {
  all: "all use and charges",
  guaranteed: "guaranteed use",
  borrowed: "borrowed use",
  unpaid: "unpaid use",
  fault: "free use",
  commitment: "commitments",
  top_up: "minimums and increments",
} as const;

/** Why use costs nothing. */
const FAULT_WORDS: Record<ChargebackJob["faults"][number], string> = {
  node_failed: "node failed",
  lost: "lost by the cluster",
  preempted: "preempted early",
};

function JobRows({ items, isWhole }: { items: readonly ChargebackJob[]; isWhole: boolean }) {
  const session = useSession();
  const currency = useChargebackCurrency();
  const head = headOf(items);
  return (
    <DataTable
      label="Jobs behind the charge"
      rows={items}
      rowKey={(item) => `${item.job ?? ""} ${item.team} ${item.pool} ${item.usage_class}`}
      totals={DEVICES.map((device) => ({ device, of: items.filter((item) => item.device === device) })).filter(
        ({ of }) => of.length > 0,
      )}
      columns={[
        {
          header: "Job",
          isHeading: true,
          cell: (item) =>
            item.job === null ? (
              <span className="faint">(commitment)</span>
            ) : may(session, "view_jobs", item.team) ? (
              <Link to="/jobs/$jobId" params={{ jobId: item.job }}>
                {item.name}
              </Link>
            ) : (
              item.name
            ),
          total: () => (isWhole ? "Total" : "Total so far"),
        },
        { header: "Team", only: "wide", cell: (item) => item.team },
        { header: "User", only: "wide", cell: (item) => item.user },
        {
          header: "Use",
          cell: (item) => (
            <span className={["borrowed", "unpaid"].includes(item.usage_class) ? "pill borrow" : "pill"}>
              {item.usage_class === "fault"
                ? `free: ${item.faults.map((fault) => FAULT_WORDS[fault]).join(", ")}`
                : item.usage_class.replace("_", "-")}
            </span>
          ),
        },
        { header: "Attempts", isRight: true, only: "wide", cell: (item) => item.attempts },
        {
          header: deviceTime(head, "h"),
          isRight: true,
          cell: (item) => hoursUnder(head, item.mgpu_s, item.device),
          total: ({ device, of }) => hoursUnder(head, sumOf(of, (item) => item.mgpu_s), device),
        },
        {
          header: "Cost",
          isRight: true,
          cell: (item) => formatCost(item.cost_nano, currency),
          total: ({ of }) => formatCost(sumOf(of, (item) => item.cost_nano), currency),
        },
      ]}
    />
  );
}

function sumOf(items: readonly ChargebackJob[], value: (item: ChargebackJob) => number): bigint {
  return items.reduce((sum, item) => sum + BigInt(value(item)), 0n);
}
