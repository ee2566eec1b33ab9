import { Link } from "@tanstack/react-router";

import type { Job } from "../api/types";
import { DataTable } from "../ui/DataTable";
import { Time } from "../ui/Time";
import { BorrowedPill, NativePill, StatePill } from "./StatePill";
import { DEVICE_HEADS, DEVICE_WORDS, headOf } from "../ui/units";
import { gpusOf, lastPart, poolsText } from "./words";
import "./job-table.css";

/** Jobs as rows: the name always in sight, columns go before rows on a phone. */
export function JobTable({ jobs, caption }: { jobs: readonly Job[]; caption: string }) {
  const head = headOf(jobs);
  return (
    <DataTable
      label={caption}
      rows={jobs}
      rowKey={(job) => job.id}
      columns={[
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
        },
        { header: "State", only: "wide", cell: (job) => <Pills job={job} /> },
        { header: "Team", only: "wide", title: (job) => job.team, cell: (job) => lastPart(job.team) },
        { header: "User", only: "wide", cell: (job) => job.user },
        { header: "Class", only: "wide", cell: (job) => job.priority_class },
        {
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
        { header: "Pool", only: "wide", cell: (job) => poolsText(job) },
        {
          header: "Attempt",
          isRight: true,
          only: "wide",
          cell: (job) => (job.attempt === 0 ? <span className="faint">–</span> : job.attempt),
        },
        { header: "Submitted", isRight: true, cell: (job) => <Time at={job.submitted_at} /> },
      ]}
    />
  );
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
