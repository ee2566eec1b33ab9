import { useQuery } from "@tanstack/react-query";

import { client, unwrap } from "../api/client";
import type { JobDetail } from "../api/types";
import { CliLine } from "../ui/CliLine";
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
            <p className="dim">It has not waited for anything so far.</p>
          ) : (
            <table aria-label="What it has waited for">
              <thead>
                <tr>
                  <th scope="col">Since</th>
                  <th scope="col">What it waited for</th>
                  <th scope="col" className="n hide">
                    For
                  </th>
                </tr>
              </thead>
              <tbody>
                {items.map((each, i) => (
                  <tr key={each.since}>
                    <td className="nowrap">
                      <Time at={each.since} show="exact" />
                    </td>
                    <th scope="row">
                      {codeWords(each.code, job.device)}
                      <div className="small dim">{each.sentence}</div>
                    </th>
                    <td className="n hide">{lasted(each.since, items[i - 1]?.since ?? null)}</td>
                  </tr>
                ))}
              </tbody>
            </table>
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
