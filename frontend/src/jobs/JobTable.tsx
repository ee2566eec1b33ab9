import { Link } from "@tanstack/react-router";

import type { Job } from "../api/types";
import { Time } from "../ui/Time";
import { BorrowedPill, NativePill, StatePill } from "./StatePill";
import { DEVICE_HEADS, DEVICE_WORDS, headOf } from "../ui/units";
import { gpusOf, lastPart, poolsText } from "./words";
import "./job-table.css";

/** Jobs as rows: the name always in sight, columns go before rows on a phone. */
export function JobTable({ jobs, caption }: { jobs: readonly Job[]; caption: string }) {
  const head = headOf(jobs);
  return (
    <table aria-label={caption}>
      <thead>
        <tr>
          <th scope="col">Job</th>
          <th scope="col" className="hide">
            State
          </th>
          <th scope="col" className="hide">
            Team
          </th>
          <th scope="col" className="hide">
            User
          </th>
          <th scope="col" className="hide">
            Class
          </th>
          <th scope="col" className="n">
            {DEVICE_HEADS[head]}
          </th>
          <th scope="col" className="hide">
            Pool
          </th>
          <th scope="col" className="n hide">
            Attempt
          </th>
          <th scope="col" className="n">
            Submitted
          </th>
        </tr>
      </thead>
      <tbody>
        {jobs.map((job) => (
          <tr key={job.id}>
            <th scope="row" className="job-name">
              <Link to="/jobs/$jobId" params={{ jobId: job.id }}>
                {job.name}
              </Link>
              <span className="only-phone">
                <Pills job={job} />
              </span>
            </th>
            <td className="hide">
              <Pills job={job} />
            </td>
            <td className="hide" title={job.team}>
              {lastPart(job.team)}
            </td>
            <td className="hide">{job.user}</td>
            <td className="hide">{job.priority_class}</td>
            <td className="n gpus">
              {gpusOf(job)}
              {job.device !== head && <span className="faint small"> {DEVICE_WORDS[job.device]}</span>}
            </td>
            <td className="hide">{poolsText(job)}</td>
            <td className="n hide">{job.attempt === 0 ? <span className="faint">–</span> : job.attempt}</td>
            <td className="n">
              <Time at={job.submitted_at} />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
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
