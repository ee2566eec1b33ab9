import { SegmentedControl } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";

import { Card } from "../ui/Card";
import { CliLine } from "../ui/CliLine";
import { DataTable } from "../ui/DataTable";
import { Lines, QueryView } from "../ui/states";
import { deviceTime, formatShare, headOf, hoursUnder } from "../ui/units";
import { idleQuery, type Idle, type Narrowed } from "./groupQueries";
import { SHARES } from "./search";
import { WithheldCapacity } from "./WithheldCapacity";

type Pool = Idle["pools"][number];

const SHARE_WORDS: Record<(typeof SHARES)[number], string> = {
  none: "not shared out",
  by_guarantee: "by guarantee",
  by_usage: "by use",
};

/** Each second of each healthy device is in use, idle or spare; idle time is shared out on demand. */
export function IdleCard({ asked }: { asked: Pick<Narrowed, "start" | "end" | "pool"> }) {
  const { share = "none" } = useSearch({ from: "/shell/chargeback" });
  const navigate = useNavigate({ from: "/chargeback" });
  const { start, end, pool } = asked;
  const idle = useQuery(idleQuery({ start, end, ...(pool ? { pool } : {}), share }));
  const command = [`tidegate report chargeback --start ${start} --end ${end} --idle ${share}`, pool && `--pool ${pool}`]
    .filter(Boolean)
    .join(" ");
  return (
    <QueryView query={idle} loading={<Card><Lines count={3} label="Loading idle time" /></Card>}>
      {(data) => (
        <>
          {data.pools.length > 0 && (
            <Card label="In use and idle">
              <h2>In use and idle</h2>
              <p className="sub">
                Idle is unused capacity inside of unused guarantees; spare is the rest. Nodes that are down have no capacity.
              </p>
              <PoolTable pools={data.pools} />
              <h3>Idle time, {SHARE_WORDS[data.share]}</h3>
              <div>
                <SegmentedControl
                  className="fit"
                  aria-label="Share out idle time"
                  data={SHARES.map((value) => ({ value, label: SHARE_WORDS[value] }))}
                  value={share}
                  onChange={(value) =>
                    void navigate({ search: (before) => ({ ...before, share: SHARES.find((each) => each === value) }), replace: true })
                  }
                />
              </div>
              {data.share !== "none" && <ShareTable idle={data} />}
              <CliLine command={command} />
            </Card>
          )}
          <WithheldCapacity pools={data.withheld} isRunning={Date.parse(data.as_of) < Date.parse(data.end)} />
        </>
      )}
    </QueryView>
  );
}

function PoolTable({ pools }: { pools: readonly Pool[] }) {
  const head = headOf(pools);
  const hours = (name: "in_use_mgpu_s" | "idle_mgpu_s" | "spare_mgpu_s" | "outside_mgpu_s" | "capacity_mgpu_s", title: string) => ({
    header: `${title} ${deviceTime(head, "h")}`,
    isRight: true,
    cell: (pool: Pool) => hoursUnder(head, pool[name], pool.device),
  });
  const percent = (part: number, whole: number) => `${whole > 0 ? ((part / whole) * 100).toFixed(3) : 0}%`;
  return (
    <div className="scrolls" role="group" aria-label="Capacity of pools" tabIndex={0}>
      <DataTable
        label="Capacity"
        rows={pools}
        rowKey={(pool) => pool.pool}
        columns={[
          { header: "Pool", isHeading: true, cell: (pool) => pool.pool },
          {
            header: "Of the capacity",
            only: "wide",
            className: "share",
            cell: (pool) => (
              <span className="bar" role="img" aria-label={`${formatShare(pool.in_use_mgpu_s, pool.capacity_mgpu_s)} in use`}>
                <i className="e" style={{ left: 0, width: "100%" }} />
                <i className="g" style={{ left: 0, width: percent(pool.in_use_mgpu_s, pool.capacity_mgpu_s) }} />
              </span>
            ),
          },
          hours("in_use_mgpu_s", "In use"),
          hours("idle_mgpu_s", "Idle"),
          { ...hours("spare_mgpu_s", "Spare"), only: "wide" },
          pools.some(({ outside_mgpu_s }) => outside_mgpu_s > 0) && { ...hours("outside_mgpu_s", "Of no team"), only: "wide" as const },
          { ...hours("capacity_mgpu_s", "Capacity"), only: "wide" },
        ]}
      />
    </div>
  );
}

/** The share of each team; with the idle account they sum to zero. */
function ShareTable({ idle }: { idle: Idle }) {
  const head = headOf(idle.rows);
  if (idle.rows.length === 0) return <p className="sub">Nothing was idle, or no team has a part in it.</p>;
  const sum = idle.rows.reduce((sum, { mgpu_s }) => sum + BigInt(mgpu_s), 0n);
  return (
    <div className="scrolls" role="group" aria-label="Shares of idle time" tabIndex={0}>
      <DataTable
        label={`Idle time ${SHARE_WORDS[idle.share]}`}
        rows={idle.rows}
        rowKey={({ pool, team }) => `${pool} ${team ?? ""}`}
        totals={[sum]}
        columns={[
          {
            header: "Team",
            isHeading: true,
            className: "key-cell",
            cell: ({ team }) => team ?? "Idle account",
            total: () => "Sum",
          },
          { header: "Pool", cell: ({ pool }) => pool },
          {
            header: deviceTime(head, "h"),
            isRight: true,
            cell: ({ mgpu_s, device }) => hoursUnder(head, mgpu_s, device),
            total: (sum) => hoursUnder(head, sum, head),
          },
        ]}
      />
    </div>
  );
}
