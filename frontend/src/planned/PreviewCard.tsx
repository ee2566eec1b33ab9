import { Button, Select } from "@mantine/core";
import { Link } from "@tanstack/react-router";

import type { QuotaPreview } from "../api/types";
import { lastPart } from "../jobs/words";
import "../jobs/why.css";
import { describeChange } from "../quotas/changes";
import { Card } from "../ui/Card";
import { DataTable, type Column } from "../ui/DataTable";
import { Lines } from "../ui/states";
import { Time } from "../ui/Time";
import {
  capitalised,
  countUnder,
  DEVICE_HEADS,
  DEVICE_WORDS,
  deviceTime,
  formatCost,
  formatDifference,
  formatDuration,
  formatGpuHours,
  formatGpus,
  headOf,
  hoursUnder,
  type Device,
} from "../ui/units";
import type { Looked } from "./PlannedChangePage";
import { previewSentence, previewSums, type PreviewSums } from "./words";

const HORIZONS = [
  { value: "3600", label: "1 hour" },
  { value: "21600", label: "6 hours" },
  { value: "86400", label: "1 day" },
  { value: "259200", label: "3 days" },
  { value: "604800", label: "7 days" },
];
/** Jobs of each kind that are listed before somebody asks for the rest. */
const ROWS_SHOWN = 12;

/** What the change would do: two futures of this moment, and how they differ. */
export function PreviewCard({
  looked,
  isOld,
  isBusy,
  error,
  horizonS,
  onHorizon,
  onPreview,
}: {
  looked: Looked | null;
  isOld: boolean;
  isBusy: boolean;
  error: Error | null;
  horizonS: number;
  onHorizon: (horizonS: number) => void;
  onPreview: () => void;
}) {
  return (
    <Card label="Preview" aria-busy={isBusy}>
      <div className="spread">
        <h2>What it would do</h2>
        <div className="inline">
          <Select
            aria-label="How far to look ahead"
            size="xs"
            w={110}
            allowDeselect={false}
            data={HORIZONS}
            value={String(horizonS)}
            onChange={(value) => onHorizon(Number(value ?? horizonS))}
          />
          <Button size="xs" variant="default" loading={isBusy} onClick={onPreview}>
            {looked === null ? "Preview" : "Preview again"}
          </Button>
        </div>
      </div>
      {error && !isBusy && (
        <p className="bad-text" role="alert">
          {error.message}
        </p>
      )}
      {isBusy && looked === null ? (
        <Lines count={5} label="Looking ahead" />
      ) : looked === null ? (
        !error && (
          <p className="dim">
            Not looked at yet. The preview plays the arbiter on from this moment, once as things are and once with the
            change, and changes nothing.
          </p>
        )
      ) : (
        <div className="rows preview">
          {isOld && (
            <p className="bad-text" role="status">
              ▲ Quotas changed since this preview was made. Preview it again.
            </p>
          )}
          <Preview preview={looked.preview} />
        </div>
      )}
    </Card>
  );
}

function Preview({ preview }: { preview: QuotaPreview }) {
  const sums = previewSums(preview);
  if (preview.refusal !== "") {
    return (
      <Card tone="bad" role="alert">
        <h2>This change cannot be applied now</h2>
        <p>{preview.refusal}</p>
        <p className="dim">Change the draft, or the quotas that prevent it.</p>
      </Card>
    );
  }
  const overcommitted = preview.pools.filter((pool) => pool.is_overcommitted);
  return (
    <>
      <p className="sentence" role="status">
        {previewSentence(sums)}
      </p>
      {overcommitted.map((pool) => (
        <p key={pool.pool} className="bad-text">
          ▲ {pool.pool} would be overcommitted
          {pool.guaranteed_mgpu !== null &&
            `: ${formatGpus(pool.guaranteed_mgpu)} guaranteed of ${formatGpus(pool.capacity_mgpu)} healthy ${DEVICE_WORDS[pool.device]}`}
          .
        </p>
      ))}
      <Figures preview={preview} sums={sums} />
      <Followers preview={preview} />
      <Starts preview={preview} sums={sums} />
      <Losses
        title="Preempted by the change"
        note="Running jobs that would be preempted only with the change. They are requeued at their old place."
        asOf={preview.as_of}
        losses={preview.reclaimed}
        starts={preview.starts}
        count={sums.reclaimed}
      />
      <Losses
        title="No longer preempted"
        note="Running jobs that would be preempted only without the change."
        asOf={preview.as_of}
        losses={preview.spared}
        starts={preview.starts}
        count={sums.spared}
      />
      <Teams preview={preview} />
      <Method preview={preview} />
    </>
  );
}

function Figures({ preview, sums }: { preview: QuotaPreview; sums: PreviewSums }) {
  const { costBeforeNano: before, costAfterNano: after } = sums;
  const cost =
    before === null || after === null
      ? null
      : formatDifference(before, after, (nano) => formatCost(nano, preview.currency));
  return (
    <dl className="evidence figures">
      <Figure name="Start sooner">{sums.sooner}</Figure>
      <Figure name="Start later">{sums.later}</Figure>
      <Figure name="Preempted">{sums.reclaimed}</Figure>
      {sums.atRisk.map(({ device, mgpuS }) => (
        <Figure key={device} name={`${capitalised(deviceTime(device, "hours"))} at risk`}>
          {formatGpuHours(mgpuS)}
        </Figure>
      ))}
      <Figure name="Cost of the teams">
        {cost ?? <span className="faint small">no price, or not yours to see</span>}
        {after !== null && <span className="faint small"> · {formatCost(after, preview.currency)} in all</span>}
      </Figure>
    </dl>
  );
}

function Figure({ name, children }: { name: string; children: React.ReactNode }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

/** Quotas that follow an edit although nobody set them: percentages of what changed. */
function Followers({ preview }: { preview: QuotaPreview }) {
  if (preview.quotas.length === 0) return null;
  return (
    <details>
      <summary>
        {preview.quotas.length === 1 ? "1 quota" : `${preview.quotas.length} quotas`} would change, those that follow
        included
      </summary>
      <ul>
        {preview.quotas.map((quota) => (
          <li key={quota.quota}>
            {quota.node} · {quota.pool}: {describeChange(quota.before, quota.after).join(", ") || "nothing"}
          </li>
        ))}
      </ul>
    </details>
  );
}

function Starts({ preview, sums }: { preview: QuotaPreview; sums: PreviewSums }) {
  if (sums.sooner + sums.later === 0) return null;
  return (
    <section aria-label="Starts">
      <h2>Waiting jobs that start at another time</h2>
      <Cut
        rows={preview.starts}
        count={sums.sooner + sums.later}
        columns={[
          {
            header: "Without it",
            isRight: true,
            only: "wide",
            cell: (start) => <Moment at={start.before} asOf={preview.as_of} />,
          },
          {
            header: "With it",
            isRight: true,
            only: "wide",
            cell: (start) => <Moment at={start.after} asOf={preview.as_of} />,
          },
          {
            header: "Difference",
            isRight: true,
            cell: (start) =>
              `${start.is_at_least ? "at least " : ""}${aboutDuration(start.sooner_s)} ${start.sooner_s > 0 ? "sooner" : "later"}`,
          },
        ]}
      />
    </section>
  );
}

/** A moment of a future that is played on from `asOf`: its first one is "at once", and not some time ago. */
function Moment({ at, asOf }: { at: string | null; asOf: string }) {
  if (at === null) return <span className="faint">not by then</span>;
  return at <= asOf ? <>at once</> : <Time at={at} />;
}

/** How much sooner or later, without seconds where the future is not that exact. */
function aboutDuration(seconds: number): string {
  const whole = Math.abs(seconds);
  return formatDuration(whole < 600 ? whole : Math.round(whole / 60) * 60);
}

function Losses({
  title,
  note,
  asOf,
  losses,
  starts,
  count,
}: {
  title: string;
  note: string;
  asOf: string;
  losses: QuotaPreview["reclaimed"];
  starts: QuotaPreview["starts"];
  count: number;
}) {
  if (count === 0) return null;
  const head = headOf(losses);
  return (
    <section aria-label={title}>
      <h2>{title}</h2>
      <p className="small dim">{note}</p>
      <Cut
        rows={losses}
        count={count}
        columns={[
          {
            header: "Notice",
            isRight: true,
            only: "wide",
            cell: (loss) => <Moment at={loss.noticed_at} asOf={asOf} />,
          },
          {
            header: `${deviceTime(head, "h")} at risk`,
            isRight: true,
            cell: (loss) => hoursUnder(head, loss.at_risk_mgpu_s, loss.device),
          },
          {
            header: "For",
            only: "wide",
            cell: (loss) =>
              loss.beneficiary === null ? (
                <span className="faint">a job that you may not see</span>
              ) : (
                <Link to="/jobs/$jobId" params={{ jobId: loss.beneficiary }}>
                  {starts.find(({ job }) => job === loss.beneficiary)?.name ?? "another job"}
                </Link>
              ),
          },
        ]}
      />
    </section>
  );
}

interface NamedJob {
  job: string;
  name: string;
  team: string;
  user: string;
  mgpu: number;
  device: Device;
}

/**
 * A table of the first jobs, the rest on demand, and how many there are that are not named. `columns` are those
 * after the job and its GPUs.
 */
function Cut<T extends NamedJob>({
  rows,
  count,
  columns,
}: {
  rows: readonly T[];
  count: number;
  columns: readonly Column<T>[];
}) {
  const head = headOf(rows);
  const hidden = rows.slice(ROWS_SHOWN);
  const all: Column<T>[] = [
    {
      header: "Job",
      isHeading: true,
      cell: (job) => (
        <>
          <Link to="/jobs/$jobId" params={{ jobId: job.job }}>
            {job.name}
          </Link>
          <div className="small faint">
            {lastPart(job.team)} · {job.user}
          </div>
        </>
      ),
    },
    { header: DEVICE_HEADS[head], isRight: true, cell: (job) => countUnder(head, job.mgpu, job.device) },
    ...columns,
  ];
  return (
    <>
      {rows.length > 0 && <DataTable rows={rows} rowKey={({ job }) => job} limit={ROWS_SHOWN} columns={all} />}
      {hidden.length > 0 && (
        <details>
          <summary>{hidden.length} more</summary>
          <DataTable rows={hidden} rowKey={({ job }) => job} isHeadHidden columns={all} />
        </details>
      )}
      {count > rows.length && (
        <p className="small dim">
          {rows.length === 0 ? "" : "And "}
          {count - rows.length} {rows.length === 0 ? "" : "more "}
          that are not named: too many, or not yours to see. The teams below count them.
        </p>
      )}
    </>
  );
}

function Teams({ preview }: { preview: QuotaPreview }) {
  if (preview.teams.length === 0) return null;
  const pools = new Set(preview.teams.map((team) => team.pool));
  const head = headOf(preview.teams);
  return (
    <section aria-label="Teams">
      <h2>Per team</h2>
      <DataTable
        rows={preview.teams}
        rowKey={(team) => `${team.team} ${team.pool}`}
        columns={[
          {
            header: "Team",
            isHeading: true,
            title: (team) => team.team,
            cell: (team) => (
              <>
                {lastPart(team.team)}
                {pools.size > 1 && <span className="faint"> · {team.pool}</span>}
                <div className="only-phone small faint">
                  in use now {countUnder(head, team.use_now_mgpu, team.device)}
                </div>
                <div className="only-phone small faint">
                  cost <TeamCost team={team} currency={preview.currency} />
                </div>
              </>
            ),
          },
          {
            header: "In use now",
            isRight: true,
            only: "wide",
            cell: (team) => countUnder(head, team.use_now_mgpu, team.device),
          },
          {
            header: "At the end",
            isRight: true,
            cell: (team) => (
              <>
                {countUnder(head, team.use_after_mgpu, team.device)}
                <div className="small faint">
                  {formatDifference(team.use_before_mgpu, team.use_after_mgpu, formatGpus)}
                </div>
              </>
            ),
          },
          {
            header: capitalised(deviceTime(head, "hours")),
            isRight: true,
            cell: (team) => (
              <>
                {hoursUnder(head, team.guaranteed_after_mgpu_s + team.borrowed_after_mgpu_s, team.device)}
                <div className="small faint">
                  {formatDifference(
                    team.guaranteed_before_mgpu_s + team.borrowed_before_mgpu_s,
                    team.guaranteed_after_mgpu_s + team.borrowed_after_mgpu_s,
                    formatGpuHours,
                  )}
                  {team.borrowed_after_mgpu_s > 0 && ` · ${formatGpuHours(team.borrowed_after_mgpu_s)} borrowed`}
                </div>
              </>
            ),
          },
          {
            header: "Cost",
            isRight: true,
            only: "wide",
            cell: (team) => <TeamCost team={team} currency={preview.currency} />,
          },
        ]}
      />
      <p className="small faint">The smaller figures are the difference from the future without the change.</p>
    </section>
  );
}

/** What a team would cost with the change, and the difference that it makes. */
function TeamCost({ team, currency }: { team: QuotaPreview["teams"][number]; currency: string | null }) {
  const { cost_before_nano: before, cost_after_nano: after } = team;
  if (after === null || before === null) return <span className="faint">–</span>;
  return (
    <>
      {formatCost(after, currency)}
      <div className="small faint">{formatDifference(before, after, (nano) => formatCost(nano, currency))}</div>
    </>
  );
}

/** When it was made, how far and how exactly it looked, and what it takes for granted. */
function Method({ preview }: { preview: QuotaPreview }) {
  return (
    <p className="small dim">
      Made <Time at={preview.as_of} />, looking ahead until <Time at={preview.until} show="exact" />, exact to{" "}
      {formatDuration(preview.precision_s)} towards the end.{" "}
      {preview.is_cut && (
        <b className="bad-text">
          ▲ Cut short: too much work to look until <Time at={preview.asked_until} show="exact" />. What comes later is not in
          these figures.{" "}
        </b>
      )}
      An estimate, not a promise: jobs end at their time limits
      {preview.assumed_ends > 0 &&
        ` (${preview.assumed_ends} without one are taken to run a day, or as long again as they have)`}
      , those that are stopped begin anew, and nobody submits anything.
    </p>
  );
}
