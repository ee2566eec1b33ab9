import { Link } from "@tanstack/react-router";

import type { Work } from "../api/types";
import { DataTable } from "../ui/DataTable";
import { formatCount } from "../ui/units";

/** The running jobs of some work by name, and how many more there are. */
export function RunningJobs({ work }: { work: Pick<Work, "running" | "running_jobs"> }) {
  const more = work.running - work.running_jobs.length;
  return (
    <div style={{ overflowX: "auto" }}>
      <DataTable
        label="Running jobs"
        rows={work.running_jobs}
        rowKey={(job) => job.id}
        columns={[
          {
            header: "Job",
            isHeading: true,
            className: "breaks",
            cell: (job) => (
              <Link to="/jobs/$jobId" params={{ jobId: job.id }}>
                {job.name}
              </Link>
            ),
          },
          { header: "Team", only: "wide", className: "breaks", cell: (job) => job.team },
          { header: "User", className: "breaks", cell: (job) => job.user },
          { header: "State", cell: (job) => job.state },
        ]}
      />
      {more > 0 && <p className="small dim">and {formatCount(more)} more</p>}
    </div>
  );
}
