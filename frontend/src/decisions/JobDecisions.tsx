import { useQuery } from "@tanstack/react-query";

import type { JobDetail } from "../api/types";
import { CliLine } from "../ui/CliLine";
import { Lines, QueryView } from "../ui/states";
import { DecisionList } from "./DecisionList";
import { jobDecisionsQuery } from "./queries";

/** Why a job was started, kept waiting for its claim, or stopped: by the cycles that did it. */
export function JobDecisions({ job }: { job: JobDetail }) {
  const decisions = useQuery(jobDecisionsQuery(job));
  return (
    <div className="stack">
      <QueryView query={decisions} loading={<Lines count={4} label="Loading decisions" />}>
        {(items) =>
          items.length === 0 ? (
            <p className="dim">
              No recorded decision started it, stopped it or kept anything for it. Records are dropped in time.
            </p>
          ) : (
            <DecisionList decisions={items} shows="cycles" />
          )
        }
      </QueryView>
      <CliLine command={`tidegate replay --job ${job.id}`} />
    </div>
  );
}
