import { Link } from "@tanstack/react-router";

import type { Work } from "../api/types";
import { formatCount } from "../ui/units";

/** The running jobs of some work by name, and how many more there are. */
export function RunningJobs({ work }: { work: Pick<Work, "running" | "running_jobs"> }) {
  const more = work.running - work.running_jobs.length;
  return (
    <div style={{ overflowX: "auto" }}>
      <table aria-label="Running jobs">
        <thead>
          <tr>
            <th scope="col">Job</th>
            <th scope="col" className="hide">
              Team
            </th>
            <th scope="col">User</th>
            <th scope="col">State</th>
          </tr>
        </thead>
        <tbody>
          {work.running_jobs.map((job) => (
            <tr key={job.id}>
              <th scope="row" className="breaks">
                <Link to="/jobs/$jobId" params={{ jobId: job.id }}>
                  {job.name}
                </Link>
              </th>
              <td className="hide breaks">{job.team}</td>
              <td className="breaks">{job.user}</td>
              <td>{job.state}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {more > 0 && <p className="small dim">and {formatCount(more)} more</p>}
    </div>
  );
}
