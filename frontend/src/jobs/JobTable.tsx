import { Checkbox } from "@mantine/core";
import { Link } from "@tanstack/react-router";

import type { Job } from "../api/types";
import { DataTable, type Column } from "../ui/DataTable";
import { Time } from "../ui/Time";
import { DEVICE_HEADS, DEVICE_WORDS, formatCount, headOf } from "../ui/units";
import { VirtualTable, type RowsInView } from "../ui/VirtualTable";
import { DEFAULT_COLUMNS, SORT_KEYS, nextSort, type JobColumn, type JobSort, type SortKey } from "./search";
import { BorrowedPill, NativePill, StatePill } from "./StatePill";
import { gpusOf, lastPart, poolsText } from "./words";
import "./job-table.css";

/** One action changes at most so many jobs. */
const CHOSEN_MAX = 1_000;

/** Some jobs as rows: the name always in sight, columns go before rows on a phone. */
export function JobTable({ jobs, caption }: { jobs: readonly Job[]; caption: string }) {
  const all = jobColumns(jobs);
  return (
    <div className="scroll-x">
      <DataTable
        label={caption}
        rows={jobs}
        rowKey={(job) => job.id}
        columns={[NAME, ...DEFAULT_COLUMNS.map((name) => all[name])]}
      />
    </div>
  );
}

/** A list of jobs of any length, in the order that the server keeps. Its heads change the order. */
export function JobList({
  jobs,
  caption,
  columns,
  sort,
  onSort,
  chosen,
  onChoose,
  hasMore,
  onView,
}: {
  jobs: readonly Job[];
  caption: string;
  columns: readonly JobColumn[];
  sort: JobSort;
  onSort: (sort: JobSort) => void;
  /** Ids of the chosen rows; with it each row has a box. */
  chosen?: ReadonlySet<string>;
  onChoose?: (ids: ReadonlySet<string>) => void;
  hasMore: boolean;
  onView: (view: RowsInView) => void;
}) {
  const ordering = (key: string): Pick<Column<Job>, "order" | "onOrder"> => {
    const sortKey = SORT_KEYS.find((each) => each === key);
    if (sortKey === undefined) return {};
    return { order: directionOf(sort, sortKey), onOrder: () => onSort(nextSort(sort, sortKey)) };
  };
  const all = jobColumns(jobs);
  return (
    <VirtualTable
      label={caption}
      rows={jobs}
      rowKey={jobId}
      hasMore={hasMore}
      onView={onView}
      columns={[
        chosen !== undefined && onChoose !== undefined && choiceColumn(jobs, chosen, onChoose),
        { ...NAME, ...ordering("name") },
        ...columns.map((name) => ({ ...all[name], headClass: `c-${name}`, ...ordering(name) })),
      ]}
    />
  );
}

function jobId({ id }: Job): string {
  return id;
}

const NAME: Column<Job> = {
  header: "Job",
  isHeading: true,
  className: "job-name",
  headClass: "c-name",
  cell: (job) => (
    <>
      <Link to="/jobs/$jobId" params={{ jobId: job.id }}>
        {job.name}
      </Link>
      <span className="only-phone">
        <Pills job={job} />
      </span>
    </>
  ),
};

function directionOf(sort: JobSort, key: SortKey): "ascending" | "descending" | "none" {
  return sort === key ? "ascending" : sort === `-${key}` ? "descending" : "none";
}

/** Boxes that choose jobs, as many as one action changes. */
function choiceColumn(
  jobs: readonly Job[],
  chosen: ReadonlySet<string>,
  onChoose: (ids: ReadonlySet<string>) => void,
): Column<Job> {
  const all = jobs.slice(0, CHOSEN_MAX).map(({ id }) => id);
  const hasAll = all.length > 0 && all.every((id) => chosen.has(id));
  return {
    header: (
      <Checkbox
        size="xs"
        aria-label={jobs.length > CHOSEN_MAX ? `Choose the first ${formatCount(CHOSEN_MAX)} jobs` : "Choose all loaded jobs"}
        checked={hasAll}
        indeterminate={!hasAll && chosen.size > 0}
        onChange={() => onChoose(new Set(hasAll ? [] : all))}
      />
    ),
    className: "choice",
    headClass: "c-choice",
    cell: ({ id, name }) => (
      <Checkbox
        size="xs"
        aria-label={`Choose ${name}`}
        checked={chosen.has(id)}
        disabled={chosen.size >= CHOSEN_MAX && !chosen.has(id)}
        onChange={() => onChoose(chosen.has(id) ? new Set([...chosen].filter((each) => each !== id)) : new Set([...chosen, id]))}
      />
    ),
  };
}

const NONE = <span className="faint">–</span>;

function jobColumns(jobs: readonly Job[]): Record<JobColumn, Column<Job>> {
  const head = headOf(jobs);
  return {
    state: { header: "State", only: "wide", cell: (job) => <Pills job={job} /> },
    team: { header: "Team", only: "wide", title: (job) => job.team, cell: (job) => lastPart(job.team) },
    user: { header: "User", only: "wide", cell: (job) => job.user },
    class: { header: "Class", only: "wide", cell: (job) => job.priority_class },
    type: { header: "Type", only: "wide", className: "nowrap", cell: (job) => job.type },
    gpus: {
      header: DEVICE_HEADS[head],
      isRight: true,
      className: "gpus",
      cell: (job) => (
        <>
          {gpusOf(job)}
          {job.device !== head && <span className="faint small"> {DEVICE_WORDS[job.device]}</span>}
        </>
      ),
    },
    pool: { header: "Pool", only: "wide", cell: (job) => poolsText(job) },
    cluster: { header: "Cluster", only: "wide", cell: (job) => job.current_attempt?.cluster ?? job.cluster ?? NONE },
    native_id: { header: "Cluster's id", only: "wide", className: "mono", cell: (job) => job.current_attempt?.native_id ?? NONE },
    attempt: {
      header: "Attempt",
      isRight: true,
      only: "wide",
      cell: (job) => (job.attempt === 0 ? NONE : job.attempt),
    },
    submitted_at: { header: "Submitted", isRight: true, cell: (job) => <Time at={job.submitted_at} /> },
    started_at: {
      header: "Started",
      isRight: true,
      only: "wide",
      cell: (job) => (job.started_at === null ? NONE : <Time at={job.started_at} />),
    },
    ended_at: {
      header: "Ended",
      isRight: true,
      only: "wide",
      cell: (job) => (job.ended_at === null ? NONE : <Time at={job.ended_at} />),
    },
  };
}

function Pills({ job }: { job: Job }) {
  return (
    <span className="state-counts">
      <StatePill job={job} />
      <BorrowedPill job={job} />
      <NativePill job={job} />
    </span>
  );
}
