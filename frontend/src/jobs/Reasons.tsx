import { useQuery } from "@tanstack/react-query";

import { client, unwrap } from "../api/client";
import type { JobDetail } from "../api/types";
import { CliLine } from "../ui/CliLine";
import { DataTable } from "../ui/DataTable";
import { Lines, QueryView } from "../ui/states";
import { Time } from "../ui/Time";
import { formatDuration } from "../ui/units";
import { codeWords } from "./words";

/** What it has waited for, one cause after another, the latest first. Stays after the job has ended. */
export function Reasons({ job }: { job: JobDetail }) {
  const reasons = useQuery({
    queryKey: ["jobs", "reasons", job.id],
    queryFn: async ({ signal }) =>
      (
        await unwrap(
          client.GET("/api/v1/jobs/{job_id}/reasons", { params: { path: { job_id: job.id } }, signal }),
        )
      ).items,
  });
  return (
    <div className="stack">
      <QueryView query={reasons} loading={<Lines count={4} label="Loading reasons" />}>
        {(items) =>
          items.length === 0 ? (
            <p className="dim">The job has not waited for anything.</p>
          ) : (
            <DataTable
              label="What it has waited for"
              rows={items}
              rowKey={(each) => each.since}
              columns={[
                {
                  header: "Since",
                  className: "nowrap",
                  cell: (each) => <Time at={each.since} show="exact" />,
                },
                {
                  header: "What it waited for",
                  isHeading: true,
                  cell: (each) => (
                    <>
                      {codeWords(each.code, job.device)}
                      <div className="small dim">{each.sentence}</div>
                    </>
                  ),
                },
                {
                  header: "For",
                  isRight: true,
                  only: "wide",
                  cell: (each, i) => lasted(each.since, items[i - 1]?.since ?? null),
                },
              ]}
            />
          )
        }
      </QueryView>
      <CliLine command={`tidegate why ${job.id} --history`} />
    </div>
  );
}

/** How long a cause held until the next one; that of the latest only the timeline knows. */
function lasted(since: string, until: string | null): string {
  return until === null ? "" : formatDuration((Date.parse(until) - Date.parse(since)) / 1000);
}
