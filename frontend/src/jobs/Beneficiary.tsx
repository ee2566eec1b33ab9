import { Link } from "@tanstack/react-router";

import type { Beneficiary as Job } from "../api/types";
import { formatGpuCount, type Device } from "../ui/units";
import { lastPart } from "./words";

/** The job that gets the GPUs, as far as the reader may see it: by name, by team and size, or as one of another team. */
export function Beneficiary({ job, device }: { job: Job; device: Device }) {
  if (job.team === null) return <>a job of another team</>;
  const size = job.mgpu === null ? "" : ` (${formatGpuCount(job.mgpu, device)})`;
  return (
    <>
      {job.job === null ? (
        "a job"
      ) : (
        <Link to="/jobs/$jobId" params={{ jobId: job.job }}>
          {job.name}
        </Link>
      )}{" "}
      of <span title={job.team}>{lastPart(job.team)}</span>
      {size}
    </>
  );
}
