import { Button } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";

import { todayQuery } from "../api/queries";
import type { Today, UnusedJob } from "../api/types";
import { codeWords, lastPart } from "../jobs/words";
import { unusedQuery } from "../metrics/queries";
import { costWords } from "../prices/costWords";
import { describeChange } from "../quotas/changes";
import { Card } from "../ui/Card";
import { CliLine } from "../ui/CliLine";
import { DataTable } from "../ui/DataTable";
import { Fact, Facts } from "../ui/Facts";
import { Lines, QueryView } from "../ui/states";
import { Time } from "../ui/Time";
import {
  deviceTime,
  formatDuration,
  formatGpuCount,
  formatGpuHours,
  formatShare,
  headOf,
  hoursUnder,
} from "../ui/units";

type Loss = Today["waste"][number];
type End = Today["ends"][number];
type Change = Today["quota_changes"][number];

const LOST_WORDS: Record<Loss["how"], string> = {
  failed: "failed",
  timed_out: "reached its time limit",
  preempted: "preempted",
  withdrawn: "withdrawn from its cluster",
  node_lost: "lost its node",
};
const END_WORDS: Record<End["how"], string> = {
  ...LOST_WORDS,
  succeeded: "succeeded",
  cancelled: "cancelled",
  requeued: "requeued as asked",
  unknown: "ended; outcome unknown",
};
const EVENTS_SHOWN = 12;

/** A line of the card: a job whose GPUs are idle now, or whose work was lost. */
interface Wasted {
  key: string;
  job: Pick<Loss, "id" | "name" | "team" | "user" | "device">;
  what: React.ReactNode;
  note: string;
  mgpuS: number;
  cost: Loss["cost"];
  tab: "metrics" | "attempts";
}

const IDLE_SHOWN = 5;

/** GPUs that are idle now, and work of the last 24 hours that was lost, the most first. */
export function Waste({ scope, node }: { scope: string | undefined; node: string | undefined }) {
  const today = useQuery(todayQuery(scope));
  const unused = useQuery({ ...unusedQuery(node ?? ""), enabled: node !== undefined });
  const idle = (unused.data?.idle_gpus ?? []).slice(0, IDLE_SHOWN).map(idleOf);
  return (
    <Card label="Waste">
      <div className="spread">
        <h2>Waste</h2>
        <span className="small faint">{node === undefined ? "work lost in the last 24 h" : "idle now, and work lost in the last 24 h"}</span>
      </div>
      <QueryView query={today} loading={<Lines count={3} label="Loading lost work" />}>
        {(data) =>
          data.waste.length + idle.length === 0 ? (
            <p className="dim">No work was lost.</p>
          ) : (
            <WasteTable today={data} rows={[...idle, ...data.waste.map(lossOf)]} />
          )
        }
      </QueryView>
      {node === undefined && <p className="small dim">Choose a team above to see GPUs that are idle now.</p>}
      {unused.isError && <p className="small dim">GPUs that are idle now cannot be shown: the server does not answer.</p>}
    </Card>
  );
}

function idleOf(row: UnusedJob): Wasted {
  const { job, name, team, user, device, mgpu, idle_mgpu_s: idle, cost, summary } = row;
  return {
    key: `idle ${job}`,
    job: { id: job, name, team, user, device },
    what: `${formatGpuCount(mgpu, device)} idle for ${formatDuration((idle ?? 0) / mgpu)}`,
    note: summary.gpus_are_held === false ? "no process uses them" : "still running",
    mgpuS: idle ?? 0,
    cost,
    tab: "metrics",
  };
}

function lossOf(loss: Loss): Wasted {
  return {
    key: `${loss.id} ${loss.how}`,
    job: loss,
    what: `${LOST_WORDS[loss.how]}${loss.attempts > 1 ? ` ${String(loss.attempts)} times` : ""}`,
    note: `work lost since ${loss.has_checkpoint ? "its checkpoint" : "its start: no checkpoint"}`,
    mgpuS: loss.lost_mgpu_s,
    cost: loss.cost,
    tab: "attempts",
  };
}

function WasteTable({ today, rows }: { today: Today; rows: readonly Wasted[] }) {
  const head = headOf(rows.map(({ job }) => job));
  const hasCosts = rows.some(({ cost }) => cost !== null);
  return (
    <DataTable
      label="Waste"
      rows={rows}
      rowKey={({ key }) => key}
      totals={today.totals.filter(({ lost_mgpu_s }) => lost_mgpu_s > 0)}
      columns={[
        { header: "Job", isHeading: true, cell: ({ job }) => <JobLink of={job} />, total: () => "Lost work in all" },
        {
          header: "What",
          cell: ({ what, note }) => (
            <>
              {what}
              <div className="small faint">{note}</div>
            </>
          ),
          total: (sum) => (
            <span className="dim">
              {formatShare(sum.lost_mgpu_s, sum.used_mgpu_s)} of {formatGpuHours(sum.used_mgpu_s)}{" "}
              {deviceTime(sum.device, "h")} that ended
            </span>
          ),
        },
        {
          header: deviceTime(head, "h"),
          isRight: true,
          cell: ({ mgpuS, job }) => hoursUnder(head, mgpuS, job.device),
          total: (sum) => hoursUnder(head, sum.lost_mgpu_s, sum.device),
        },
        hasCosts && {
          header: "Cost",
          hint: "What the idle time and the lost work are charged.",
          isRight: true,
          className: "lost-cost",
          cell: ({ cost }) => <WorkCost cost={cost} />,
          total: (sum) => <WorkCost cost={sumOf(today, sum)} />,
        },
        {
          header: <span className="visually-hidden">Actions</span>,
          isRight: true,
          only: "wide",
          cell: ({ job, tab }) => (
            <Button
              variant="default"
              size="compact-sm"
              aria-label={`Open ${job.name}`}
              renderRoot={(props) => <Link to="/jobs/$jobId" params={{ jobId: job.id }} search={{ tab }} {...props} />}
            >
              Open
            </Button>
          ),
        },
      ]}
    />
  );
}

function WorkCost({ cost }: { cost: Loss["cost"] }) {
  if (cost === null) return <span className="faint">–</span>;
  return <>{costWords(cost.cost_nano, cost.unbilled_nano, cost.price_mode, cost.currency)}</>;
}

/** The cost of all that was lost on one kind of device. Null where a row is not listed, has no cost or another currency. */
function sumOf(today: Today, { device, lost_mgpu_s: lost }: Today["totals"][number]): Loss["cost"] {
  const rows = today.waste.filter((loss) => loss.device === device);
  const costs = rows.flatMap(({ cost }) => cost ?? []);
  const [first] = costs;
  const isWhole = costs.length === rows.length && rows.reduce((sum, row) => sum + row.lost_mgpu_s, 0) === lost;
  if (first === undefined || !isWhole || costs.some(({ currency }) => currency !== first.currency)) return null;
  const billed = costs.reduce((sum, cost) => sum + cost.cost_nano, 0);
  const unbilled = costs.filter((cost) => cost.unbilled_nano > 0);
  const modes = new Set(unbilled.map(({ price_mode: mode }) => mode));
  const [mode = "pay_per_use"] = modes;
  return {
    cost_nano: billed,
    unbilled_nano: unbilled.reduce((sum, cost) => sum + cost.unbilled_nano, 0),
    price_mode: modes.size > 1 ? "mixed" : mode,
    currency: first.currency,
  };
}

/** What ended and which quotas changed in the last 24 hours, newest first. */
export function SinceYesterday({ scope }: { scope: string | undefined }) {
  const today = useQuery(todayQuery(scope));
  return (
    <Card label="Since yesterday">
      <h2>Since yesterday</h2>
      <QueryView query={today} loading={<Lines count={4} label="Loading the last day" />}>
        {(data) => {
          const events = eventsOf(data);
          return events.length === 0 ? (
            <p className="dim">No job ended and no quota changed.</p>
          ) : (
            <Facts label="Since yesterday" isLeft>
                {events.slice(0, EVENTS_SHOWN).map(({ key, at, what }) => (
                  <Fact key={key} className="mono" name={<Time at={at} show="clock" />}>
                    {what}
                  </Fact>
                ))}
              </Facts>
          );
        }}
      </QueryView>
      <div className="spread more">
        <Link to="/jobs">All jobs</Link>
        <CliLine command={`tidegate today${scope ? ` ${scope}` : ""}`} />
      </div>
    </Card>
  );
}

function eventsOf(today: Today): { key: string; at: string; what: React.ReactNode }[] {
  const ends = today.ends.map((end) => ({
    key: `${end.id} ${end.attempt}`,
    at: end.ended_at,
    what: <Ended end={end} />,
  }));
  const changes = today.quota_changes.map((change) => ({
    key: change.id,
    at: change.at,
    what: <Changed change={change} />,
  }));
  return [...ends, ...changes].sort((a, b) => (a.at < b.at ? 1 : -1));
}

function Ended({ end }: { end: End }) {
  const reason = end.how === "failed" && end.end_reason !== null ? codeWords(end.end_reason, end.device) : null;
  return (
    <>
      <Link to="/jobs/$jobId" params={{ jobId: end.id }}>
        {end.name}
      </Link>{" "}
      {END_WORDS[end.how]}
      {reason !== null && `: ${reason}${end.exit_code === null ? "" : ` ${end.exit_code}`}`}
      <div className="small faint">
        {lastPart(end.team)} · {end.user} · {formatGpuCount(end.mgpu, end.device)} ×{" "}
        {formatDuration(Math.round(end.used_mgpu_s / end.mgpu))}
        {end.attempt > 1 && ` · attempt ${end.attempt}`}
        {end.cost !== null && (
          <>
            {" · "}
            <WorkCost cost={end.cost} />
          </>
        )}
      </div>
    </>
  );
}

function Changed({ change }: { change: Change }) {
  return (
    <>
      <Link to="/quotas" search={{ pool: change.pool, node: change.node }}>
        {lastPart(change.node)}
      </Link>
      : {describeChange(change.before, change.after).join(", ")}
      <div className="small faint">
        {change.actor ?? "Tidegate"} · {change.reason}
      </div>
    </>
  );
}

function JobLink({ of }: { of: Wasted["job"] }) {
  return (
    <>
      <Link to="/jobs/$jobId" params={{ jobId: of.id }}>
        {of.name}
      </Link>
      <div className="small faint">
        {lastPart(of.team)} · {of.user}
      </div>
    </>
  );
}
