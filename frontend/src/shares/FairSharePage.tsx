import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useCallback, useState } from "react";

import type { ExplainedFairShare as Shares, NodeFairShare } from "../api/types";
import { Chart } from "../history/Chart";
import type { Colours } from "../history/option";
import { lastPart } from "../jobs/words";
import { isWithin, teamsWhereIMay } from "../session/access";
import { useSession } from "../session/useSession";
import { Card } from "../ui/Card";
import { CliLine } from "../ui/CliLine";
import { shellQuote } from "../ui/command";
import { DataTable } from "../ui/DataTable";
import { Fact, Facts } from "../ui/Facts";
import { Lines, QueryView } from "../ui/states";
import { formatGpuHours, formatGpus } from "../ui/units";
import { levelText, percentOf } from "./levels";
import { NodeAndPool, type Place } from "./NodeAndPool";
import { daysOf, outlookOption } from "./outlook";
import { fairShareQuery } from "./queries";

const LEAD = "The order in which nodes get idle GPUs beyond their guarantees: least recent use for its weight first.";

/** The fair-share of a node: its place, why, and what changes it. */
export function FairSharePage() {
  const session = useSession();
  const { scope = "", ...search } = useSearch({ from: "/shell/fair-share" });
  const navigate = useNavigate({ from: "/fair-share" });
  return (
    <NodeAndPool
      title="Fair share"
      lead={LEAD}
      search={search}
      start={(nodes) => {
        const inScope = nodes.filter(({ path }) => isWithin(path, scope));
        return teamsWhereIMay(session, "submit_jobs", inScope)[0] ?? inScope[0];
      }}
      onChange={(next) => void navigate({ search: (before) => ({ ...before, ...next }), replace: true })}
    >
      {(place) => <OfNode place={place} />}
    </NodeAndPool>
  );
}

function OfNode({ place }: { place: Place }) {
  const query = useQuery(fairShareQuery(place.node, place.pool));
  return (
    <QueryView query={query} loading={<Lines count={8} label="Loading the fair share" />}>
      {(found) => (
        <>
          <div className="rows">
            <WhyCard found={found} />
            {found.above.length > 0 && <SiblingsCard found={found} pool={place.pool} />}
            {found.below.length > 0 && (
              <OrderCard title={`Order in ${lastPart(found.node.node)}`} rows={found.below} pool={place.pool} />
            )}
            <OutlookCard found={found} />
            <ChangesCard found={found} />
          </div>
          <p className="more">
            <CliLine command={`tidegate fair-share ${shellQuote(place.node)} --pool ${shellQuote(place.pool)}`} />
          </p>
        </>
      )}
    </QueryView>
  );
}

/** Levels of the tree are compared from the top, so a node above may be why this one waits. */
function WhyCard({ found }: { found: Shares }) {
  const { node, above } = found;
  const levels = above.slice(1);
  return (
    <Card label="Place and reason">
      <h2>{lastPart(node.node)}</h2>
      <p className="sentence">{node.sentence}</p>
      {levels.length > 0 && (
        <>
          <p className="small dim">Nodes above are compared first:</p>
          <ul className="plain-list">
            {levels.map((row) => (
              <li key={row.node}>{row.sentence}</li>
            ))}
          </ul>
        </>
      )}
      <Facts label="Numbers">
        <Fact name="Fair share: weight over use (1 = even)">{levelText(node.level_permille)}</Fact>
        <Fact name="Place among siblings">
          {node.place} of {node.siblings}
        </Fact>
        <Fact name="Part of the weight">{percentOf(node.weight_permille)}</Fact>
        <Fact name="Part of the recent use">{percentOf(node.used_permille)}</Fact>
        <Fact name="Recent use, decayed">{formatGpuHours(node.used_mgpu_s)} GPU-h</Fact>
        <Fact name="Use counts half after">{daysOf(node.half_life_s)}</Fact>
      </Facts>
    </Card>
  );
}

function SiblingsCard({ found, pool }: { found: Shares; pool: string }) {
  const parent = found.above.at(-1)?.node ?? "";
  const query = useQuery(fairShareQuery(parent, pool));
  const rows = query.data?.below ?? [];
  if (rows.length < 2) return null;
  return <OrderCard title={`Order in ${lastPart(parent)}`} rows={rows} pool={pool} own={found.node.node} />;
}

function OrderCard({
  title,
  rows,
  pool,
  own,
}: {
  title: string;
  rows: readonly NodeFairShare[];
  pool: string;
  own?: string;
}) {
  return (
    <Card label={title}>
      <h2>{title}</h2>
      <DataTable
        label={title}
        rows={[...rows]}
        rowKey={({ node }) => node}
        columns={[
          {
            header: "Node",
            isHeading: true,
            className: "breaks",
            cell: ({ node }) => (
              <Link to="/fair-share" search={(before) => ({ ...before, node, pool })} title={node}>
                {node === own ? <b>{lastPart(node)}</b> : lastPart(node)}
              </Link>
            ),
          },
          { header: "Place", isRight: true, cell: ({ place }) => String(place) },
          { header: "Weight", isRight: true, only: "wide", cell: ({ weight_permille }) => percentOf(weight_permille) },
          { header: "Recent use", isRight: true, cell: ({ used_permille }) => percentOf(used_permille) },
          {
            header: "Fair share",
            hint: "The part of the weight over the part of the recent use. 1 is even, and above 1 a node comes earlier.",
            isRight: true,
            cell: ({ level_permille }) => levelText(level_permille),
          },
          {
            header: "GPU-h",
            hint: "Recent use in GPU-hours of the reference GPU. Older use counts less.",
            isRight: true,
            only: "wide",
            cell: ({ used_mgpu_s }) => formatGpuHours(used_mgpu_s),
          },
        ]}
      />
    </Card>
  );
}

function OutlookCard({ found }: { found: Shares }) {
  const [asTable, setAsTable] = useState(false);
  const option = useCallback((colours: Colours, labels: number) => outlookOption(found, colours, labels), [found]);
  const last = found.outlook.at(-1);
  const said =
    last === undefined
      ? ""
      : `In ${daysOf(last.after_s)} the recent use of ${lastPart(found.node.node)} is ${formatGpuHours(last.idle_mgpu_s)} GPU-h without further use, and ${formatGpuHours(last.steady_mgpu_s)} GPU-h with the ${formatGpus(found.in_use_mgpu)} GPUs of now.`;
  return (
    <Card label="Outlook" tabIndex={0}>
      <div className="spread">
        <h2>How recent use goes on</h2>
        <button type="button" className="plain link small" onClick={() => setAsTable(!asTable)}>
          {asTable ? "Show the chart" : "Show as table"}
        </button>
      </div>
      <p className="small dim">{said}</p>
      {asTable ? (
        <DataTable
          label="Outlook"
          rows={found.outlook.filter((_, at) => at % 7 === 0)}
          rowKey={({ after_s }) => String(after_s)}
          columns={[
            { header: "After", isHeading: true, cell: ({ after_s }) => daysOf(after_s) },
            { header: "No further use, GPU-h", isRight: true, cell: ({ idle_mgpu_s }) => formatGpuHours(idle_mgpu_s) },
            { header: "Use as now, GPU-h", isRight: true, cell: ({ steady_mgpu_s }) => formatGpuHours(steady_mgpu_s) },
          ]}
        />
      ) : (
        <>
          <Chart className="outlook-chart" option={option} label={said} />
          <p className="small dim">━ no further use ┅ use as now</p>
        </>
      )}
    </Card>
  );
}

function ChangesCard({ found }: { found: Shares }) {
  return (
    <Card label="What changes it">
      <h2>What changes it</h2>
      <ul className="plain-list">
        <li>Use counts half after {daysOf(found.node.half_life_s)}, so a node that uses less moves forward.</li>
        <li>
          A larger weight moves a node forward. An administrator of the node above sets it in{" "}
          <Link to="/quotas" search={{ node: found.node.node, pool: found.pool }}>
            Quotas
          </Link>
          .
        </li>
        <li>Use of all pools counts, each GPU by the weight of its pool.</li>
        <li>Jobs inside of the guarantee do not wait for fair share. It orders only what goes beyond.</li>
        <li>
          The half-life, and what comes before fair share, are in <Link to="/policy">Policy</Link>.
        </li>
      </ul>
    </Card>
  );
}
