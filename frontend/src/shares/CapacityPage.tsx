import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";

import type { ClusterCapacity, PoolCapacity } from "../api/types";
import { isWithin } from "../session/access";
import { Card } from "../ui/Card";
import { CliLine } from "../ui/CliLine";
import { shellQuote } from "../ui/command";
import { DataTable } from "../ui/DataTable";
import { Kpi } from "../ui/Kpi";
import { Empty, Lines, QueryView } from "../ui/states";
import { Time } from "../ui/Time";
import { DEVICE_HEADS, DEVICE_WORDS, formatCount, formatGpuCount, formatGpus } from "../ui/units";
import { percentOf } from "./levels";
import { NodeAndPool, type Place } from "./NodeAndPool";
import { capacityQuery } from "./queries";

const LEAD = "Free blocks by size, who borrows from whom, and who waits inside of the guarantee.";

/** The capacity of a pool now. */
export function CapacityPage() {
  const { scope = "", ...search } = useSearch({ from: "/shell/capacity" });
  const navigate = useNavigate({ from: "/capacity" });
  return (
    <NodeAndPool
      title="Capacity"
      lead={LEAD}
      search={search}
      start={(nodes) => nodes.find(({ path }) => isWithin(path, scope))}
      onChange={(next) => void navigate({ search: (before) => ({ ...before, ...next }), replace: true })}
    >
      {(place) => <OfPool place={place} />}
    </NodeAndPool>
  );
}

function OfPool({ place }: { place: Place }) {
  const query = useQuery(capacityQuery(place.node, place.pool));
  return (
    <QueryView query={query} loading={<Lines count={8} label="Loading the capacity" />}>
      {(found) => (
        <>
          <div className="rows">
            <Figures found={found} />
            <BlocksCard found={found} />
            <StarvedCard found={found} />
            <LoansCard found={found} />
          </div>
          <p className="more">
            <CliLine command={`tidegate capacity ${shellQuote(place.node)} --pool ${shellQuote(place.pool)}`} />
          </p>
        </>
      )}
    </QueryView>
  );
}

function sumOf<T>(rows: readonly T[], of: (row: T) => number): number {
  return rows.reduce((sum, row) => sum + of(row), 0);
}

function Figures({ found }: { found: PoolCapacity }) {
  const { clusters, device } = found;
  const free = sumOf(clusters, (one) => one.free_mgpu);
  const whole = sumOf(clusters, (one) => one.whole_mgpu);
  const largest = Math.max(0, ...clusters.flatMap(({ blocks }) => blocks.map(({ devices }) => devices)));
  const missing = sumOf(found.starved, (one) => one.missing_mgpu);
  return (
    <div className="kpis">
      <Kpi
        value={formatGpus(free)}
        label={`${DEVICE_WORDS[device]} free`}
        context={`of ${formatGpus(sumOf(clusters, (one) => one.capacity_mgpu))} in ${found.pool}`}
      />
      <Kpi
        value={percentOf(free === 0 ? 0 : Math.floor((1000 * (free - whole)) / free))}
        label="of them fragmented"
        context="on nodes that are used in part"
      />
      <Kpi value={formatCount(largest)} label={`${DEVICE_WORDS[device]} in the largest block`} context="on one cluster" />
      <Kpi
        tone="wait"
        value={formatGpus(missing)}
        label="missing guarantee"
        context={`${formatCount(found.starved.length)} ${found.starved.length === 1 ? "team waits" : "teams wait"}`}
      />
    </div>
  );
}

function BlocksCard({ found }: { found: PoolCapacity }) {
  const sizes = [...new Set(found.clusters.flatMap(({ blocks }) => blocks.map(({ devices }) => devices)))].sort((a, b) => a - b);
  const count = (cluster: ClusterCapacity, size: number) => cluster.blocks.find(({ devices }) => devices === size)?.blocks ?? 0;
  return (
    <Card label="Free blocks" tabIndex={0}>
      <h2>Free blocks by size</h2>
      <p className="small dim">
        A block is a place for a job of that size. Blocks of different sizes share the same {DEVICE_WORDS[found.device]}.
      </p>
      {found.clusters.length === 0 ? (
        <Empty>No cluster has nodes of this pool.</Empty>
      ) : (
        <DataTable
          label="Free blocks by size"
          className="blocks"
          rows={[...found.clusters]}
          rowKey={({ cluster }) => cluster}
          columns={[
            {
              header: "Cluster",
              isHeading: true,
              cell: ({ cluster, is_accepting }) => (
                <>
                  <Link to="/clusters/$name" params={{ name: cluster }}>
                    {cluster}
                  </Link>
                  {!is_accepting && <div className="small faint">starts nothing now</div>}
                </>
              ),
            },
            { header: "Free", isRight: true, cell: ({ free_mgpu }) => formatGpus(free_mgpu) },
            { header: "Free nodes", isRight: true, only: "wide", cell: (one) => `${formatCount(one.free_nodes)} of ${formatCount(one.nodes)}` },
            { header: "Fragmented", isRight: true, only: "wide", cell: (one) => percentOf(one.fragmented_permille) },
            {
              header: "Size × blocks",
              only: "phone",
              cell: ({ blocks }) => blocks.map(({ devices, blocks: places }) => `${formatCount(devices)} × ${formatCount(places)}`).join(", ") || "none",
            },
            ...sizes.map((size) => ({
              header: formatGpuCount(size * 1000, found.device),
              isRight: true,
              only: "wide" as const,
              cell: (one: ClusterCapacity) => formatCount(count(one, size)),
            })),
          ]}
        />
      )}
    </Card>
  );
}

function StarvedCard({ found }: { found: PoolCapacity }) {
  return (
    <Card label="Starved teams" tone={found.starved.length > 0 ? "warn" : undefined} tabIndex={0}>
      <h2>Teams that wait inside of their guarantee</h2>
      {found.starved.length === 0 ? (
        <Empty>No team waits inside of its guarantee.</Empty>
      ) : (
        <DataTable
          label="Starved teams"
          rows={[...found.starved]}
          rowKey={({ team }) => team}
          columns={[
            { header: "Team", isHeading: true, className: "breaks", cell: ({ team }) => team },
            { header: "Missing guarantee", isRight: true, cell: ({ missing_mgpu }) => formatGpus(missing_mgpu) },
            { header: "Waiting", isRight: true, only: "wide", cell: ({ waiting_mgpu }) => formatGpus(waiting_mgpu) },
            {
              header: "Since",
              isRight: true,
              cell: ({ waiting_since }) => (waiting_since === null ? "–" : <Time at={waiting_since} />),
            },
          ]}
        />
      )}
    </Card>
  );
}

function LoansCard({ found }: { found: PoolCapacity }) {
  return (
    <Card label="Loans" tabIndex={0}>
      <h2>Who borrows from whom</h2>
      <p className="small dim">
        Devices of a pool are interchangeable, so each borrower borrows from all lenders in proportion. (reserve) is a
        guarantee that was given to no child, (outside) everything outside of the borrower's or lender's parent.
      </p>
      {found.loans.length === 0 ? (
        <Empty>Nobody borrows now.</Empty>
      ) : (
        <DataTable
          label="Loans"
          rows={[...found.loans]}
          rowKey={({ within, borrower, lender }) => `${within} ${borrower} ${lender}`}
          columns={[
            { header: "Borrower", isHeading: true, className: "breaks", cell: ({ borrower }) => borrower },
            { header: "Lender", className: "breaks", cell: ({ lender }) => lender },
            { header: "Within", className: "breaks", only: "wide", cell: ({ within }) => within },
            { header: DEVICE_HEADS[found.device], isRight: true, cell: ({ mgpu }) => formatGpus(mgpu) },
          ]}
        />
      )}
    </Card>
  );
}
