import { Checkbox } from "@mantine/core";
import { Link } from "@tanstack/react-router";

import type { Job } from "../api/types";
import { DataTable, type Column } from "../ui/DataTable";
import { Time } from "../ui/Time";
import { DEVICE_HEADS, DEVICE_WORDS, headOf } from "../ui/units";
import { DEFAULT_COLUMNS, SORT_KEYS, nextSort, type JobColumn, type JobSort, type SortKey } from "./search";
import { BorrowedPill, NativePill, StatePill } from "./StatePill";
import { gpusOf, lastPart, poolsText } from "./words";
import "./job-table.css";

/** Jobs as rows: the name always in sight, columns go before rows on a phone. */
export function JobTable({
  jobs,
  caption,
  columns = DEFAULT_COLUMNS,
  sort,
  onSort,
  chosen,
  onChoose,
}: {
  jobs: readonly Job[];
  caption: string;
  columns?: readonly JobColumn[];
  /** The order of the whole list, which the server keeps; its heads then change it. */
  sort?: JobSort;
  onSort?: (sort: JobSort) => void;
  /** Ids of the chosen rows; with it each row has a box. */
  chosen?: readonly string[];
  onChoose?: (ids: readonly string[]) => void;
}) {
  const ordering = (key: string): Pick<Column<Job>, "order" | "onOrder"> => {
    const sortKey = SORT_KEYS.find((each) => each === key);
    if (sort === undefined || onSort === undefined || sortKey === undefined) return {};
    return { order: directionOf(sort, sortKey), onOrder: () => onSort(nextSort(sort, sortKey)) };
  };
  const all = jobColumns(jobs);
  return (
    <div className="scroll-x">
      <DataTable
        label={caption}
        rows={jobs}
        rowKey={(job) => job.id}
        columns={[
          chosen !== undefined && onChoose !== undefined && choiceColumn(jobs, chosen, onChoose),
          {
            header: "Job",
            isHeading: true,
            className: "job-name",
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
            ...ordering("name"),
          },
          ...columns.map((name) => ({ ...all[name], ...ordering(name) })),
        ]}
      />
    </div>
  );
}

function directionOf(sort: JobSort, key: SortKey): "ascending" | "descending" | "none" {
  return sort === key ? "ascending" : sort === `-${key}` ? "descending" : "none";
}

function choiceColumn(
  jobs: readonly Job[],
  chosen: readonly string[],
  onChoose: (ids: readonly string[]) => void,
): Column<Job> {
  const shown = jobs.map(({ id }) => id);
  const hasAll = shown.length > 0 && shown.every((id) => chosen.includes(id));
  return {
    header: (
      <Checkbox
        size="xs"
        aria-label="Choose all jobs of this page"
        checked={hasAll}
        indeterminate={!hasAll && chosen.length > 0}
        onChange={() => onChoose(hasAll ? [] : shown)}
      />
    ),
    className: "choice",
    cell: ({ id, name }) => (
      <Checkbox
        size="xs"
        aria-label={`Choose ${name}`}
        checked={chosen.includes(id)}
        onChange={() => onChoose(chosen.includes(id) ? chosen.filter((each) => each !== id) : [...chosen, id])}
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
