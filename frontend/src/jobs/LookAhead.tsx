import { Button } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";

import { client, unwrap } from "../api/client";
import type { Explanation } from "../api/types";
import { Time } from "../ui/Time";
import { hasFuture, methodWords } from "./words";

const FRESH_MS = 60_000;

/**
 * When it starts if the arbiter is played on from this moment, with what that takes for granted. Where the start is
 * unknown it looks by itself, once a minute at most, and its range stands in the place of `unknown`.
 */
export function LookAhead({
  jobId,
  code,
  unknown,
}: {
  jobId: string;
  code: Explanation["code"];
  /** What is said while nothing is known; null where the arbiter foresees the start. */
  unknown: ReactNode;
}) {
  const canLook = hasFuture(code);
  const look = useQuery({
    queryKey: ["estimate", jobId],
    enabled: canLook && unknown !== null,
    staleTime: FRESH_MS,
    refetchOnWindowFocus: false,
    retry: false,
    queryFn: ({ signal }) =>
      unwrap(
        client.POST("/api/v1/jobs/{job_id}/estimate", { params: { path: { job_id: jobId } }, body: {}, signal }),
      ),
  });
  if (!canLook) return unknown;
  const found = look.data;
  return (
    <div className="stack" aria-live="polite">
      {found ? (
        <p>
          {found.estimated_start.latest === null ? (
            <>
              Not before <Time at={found.until} show="clock" />
            </>
          ) : (
            <>
              {found.estimated_start.earliest && (
                <>
                  Between <Time at={found.estimated_start.earliest} show="clock" /> and{" "}
                </>
              )}
              <Time at={found.estimated_start.latest} show="clock" />
            </>
          )}
          <span className="faint"> · {methodWords(found.estimated_start.method)}</span>
          <span className="small dim block">
            Looked until <Time at={found.until} show="clock" />
            {found.estimated_start.latest === null && found.until < found.asked_until && ", where the work became too much"}.
            Assumes that running jobs use their full time limit
            {found.assumed_ends > 0 && ` (${found.assumed_ends} without one: a day, or as long again as they have)`} and
            no new jobs are submitted.
          </span>
        </p>
      ) : look.isFetching ? (
        <p className="dim">Looking ahead…</p>
      ) : (
        unknown
      )}
      {look.error && (
        <p className="small dim" role="status">
          {look.error.message}
        </p>
      )}
      <div>
        <Button size="xs" variant="default" loading={look.isFetching} onClick={() => void look.refetch()}>
          {found ? "Look ahead again" : "Look ahead"}
        </Button>
      </div>
    </div>
  );
}
