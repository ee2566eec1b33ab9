import { SegmentedControl, Select } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useEffect } from "react";

import { poolsQuery } from "../api/queries";
import type { UseHistory } from "../api/types";
import { UnusedCard } from "../metrics/UnusedCard";
import { useNode } from "../tree/useNode";
import { Card } from "../ui/Card";
import { CliLine } from "../ui/CliLine";
import { commandLine, shellQuote } from "../ui/command";
import { Kpi } from "../ui/Kpi";
import { useNowMs } from "../ui/now";
import { Empty, Lines, QueryView } from "../ui/states";
import { deviceTime, formatGpuHours, formatGpus, formatShare } from "../ui/units";
import { stepName } from "./labels";
import { levelsOf, stepsOf } from "./levels";
import { exchangedIn, PairsCard } from "./PairsCard";
import { periodOf, RANGE_LABELS } from "./period";
import { PreemptionsCard } from "./PreemptionsCard";
import { preemptionHistoryQuery, useHistoryQuery, waitHistoryQuery, type Asked } from "./queries";
import { RANGES, type Range } from "./search";
import { ChildrenCharts, UseCard } from "./UseCard";
import { WaitsCard } from "./WaitsCard";
import { WeekCard } from "./WeekCard";
import "./history.css";

/** The history of a node of the tree. */
export function HistoryTab() {
  const node = useNode();
  const search = useSearch({ from: "/shell/tree/$nodeId/history" });
  const navigate = useNavigate({ from: "/tree/$nodeId/history" });
  const pools = useQuery(poolsQuery);
  const nowMs = useNowMs();
  const names = (pools.data ?? []).map(({ name }) => name);
  const pool = search.pool ?? names[0];
  const change = (next: Partial<typeof search>) =>
    void navigate({ search: (old) => ({ ...old, from: undefined, to: undefined, ...next }), replace: true });
  const asked = pool === undefined ? undefined : { node: node.path, pool, ...periodOf(search, nowMs) };
  return (
    <QueryView query={pools} loading={<Lines count={8} label="Loading the history" />}>
      {() =>
        asked === undefined ? (
          <Card>
            <Empty>No pool yet. A history is that of a pool.</Empty>
          </Card>
        ) : (
          <>
            <div className="spread history-choices">
              <div className="inline">
                <SegmentedControl
                  aria-label="Period"
                  size="xs"
                  data={RANGES.map((value) => ({ value, label: RANGE_LABELS[value] }))}
                  value={search.from === undefined ? (search.range ?? "week") : ""}
                  onChange={(range) => change({ range: range as Range })}
                />
                <Select
                  aria-label="Pool"
                  size="xs"
                  data={names}
                  value={asked.pool}
                  allowDeselect={false}
                  onChange={(next) => next !== null && change({ pool: next, from: search.from, to: search.to })}
                />
              </div>
            </div>
            <div className="rows">
              <Histories asked={asked} />
              <UnusedCard node={asked.node} />
            </div>
            <CliLine
              command={commandLine(`tidegate history ${shellQuote(asked.node)}`, { pool: asked.pool, from: asked.start, to: asked.end })}
            />
          </>
        )
      }
    </QueryView>
  );
}

function Histories({ asked }: { asked: Asked }) {
  // What draws is on its way while the numbers are. A chart that needs it asks for it again.
  useEffect(() => {
    import("./drawing").catch(() => undefined);
  }, []);
  const use = useQuery(useHistoryQuery(asked));
  const waits = useQuery(waitHistoryQuery(asked));
  const preemptions = useQuery(preemptionHistoryQuery(asked));
  return (
    <div className="rows">
      <QueryView query={use} loading={<Lines count={12} label="Loading the history" />}>
        {(history) => (
          <>
            <Figures history={history} />
            <UseCard history={history} asked={asked} />
            <ChildrenCharts history={history} />
            <PairsCard history={history} asked={asked} />
          </>
        )}
      </QueryView>
      <QueryView query={waits} loading={<Lines count={4} label="Loading the waits" />}>
        {(found) => <WaitsCard waits={found} asked={asked} />}
      </QueryView>
      <QueryView query={preemptions} loading={<Lines count={3} label="Loading the preemptions" />}>
        {(found) => <PreemptionsCard found={found} asked={asked} />}
      </QueryView>
      {use.data !== undefined && <WeekCard history={use.data} asked={asked} />}
    </div>
  );
}

/** Four headline figures: use, lending, borrowing, and the peak of the queue. */
function Figures({ history }: { history: UseHistory }) {
  const levels = levelsOf(history.series.sums);
  const hours = deviceTime(history.device, "h");
  const { inside } = exchangedIn(history);
  const steps = stepsOf(history.series, history.edges);
  const peak = steps.reduce((most, step) => (step.levels.waiting > (most?.levels.waiting ?? 0) ? step : most), steps[0]);
  const percent = (part: number) => (levels.guarantee === 0 ? "–" : formatShare(part, levels.guarantee));
  return (
    <div className="kpis history-figures">
      <Kpi
        value={percent(levels.within)}
        label="of the guarantee used"
        context={`${formatGpuHours(levels.within)} of ${formatGpuHours(levels.guarantee)} ${hours}`}
      />
      <Kpi
        value={percent(levels.lent)}
        label="of the guarantee lent out"
        context={`${formatGpuHours(levels.lent)} ${hours} · ${formatGpuHours(levels.idle)} idle`}
      />
      <Kpi
        tone="borrow"
        value={formatGpuHours(levels.above)}
        label={`${hours} above the guarantee`}
        context={history.children.length > 0 && `plus ${formatGpuHours(inside)} between its own nodes`}
      />
      <Kpi
        tone="wait"
        value={formatGpus(Math.round((peak?.levels.waiting ?? 0) / 100) * 100)}
        label="waiting at the peak"
        context={
          levels.waiting > 0 && peak !== undefined
            ? `${stepName(peak.start, history.time_zone, history.step)} · ${formatGpuHours(levels.waiting)} ${hours} in all`
            : "nothing waited"
        }
      />
    </div>
  );
}
