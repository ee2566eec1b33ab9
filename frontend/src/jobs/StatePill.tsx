import type { Job } from "../api/types";
import { jobPill, usageClass } from "./words";

/** The state of a job; of a waiting one, the reason. */
export function StatePill({ job }: { job: Pick<Job, "state" | "explanation" | "device" | "current_attempt"> }) {
  const { text, tone } = jobPill(job);
  return <span className={`pill ${tone}`}>{text}</span>;
}

/** Marks what was given to its cluster beside the portal. */
export function NativePill({ job }: { job: Pick<Job, "origin"> }) {
  return job.origin === "native" ? (
    <span className="pill" title="Given to its cluster beside the portal">
      native
    </span>
  ) : null;
}

/** Marks what runs above the guarantee and may be reclaimed. */
export function BorrowedPill({ job }: { job: Pick<Job, "current_attempt"> }) {
  const used = usageClass(job);
  return used === "borrowed" || used === "partly borrowed" ? (
    <span className="pill borrow">{used}</span>
  ) : null;
}
