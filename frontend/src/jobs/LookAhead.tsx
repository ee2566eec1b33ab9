import { Button } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";

import { client, unwrap } from "../api/client";
import type { Explanation } from "../api/types";
import { Time } from "../ui/Time";
import { hasFuture, methodWords } from "./words";

/** On demand: when it starts if the arbiter is played on from this moment, with what that takes for granted. */
export function LookAhead({ jobId, code }: { jobId: string; code: Explanation["code"] }) {
  const look = useMutation({
    mutationFn: () =>
      unwrap(
        client.POST("/api/v1/jobs/{job_id}/estimate", { params: { path: { job_id: jobId } }, body: {} }),
      ),
  });
  if (!hasFuture(code)) return null;
  const found = look.data;
  return (
    <div className="stack" aria-live="polite">
      {found && (
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
            {found.estimated_start.latest === null && found.until < found.asked_until && ", where the work became too much"}. All that runs is taken to use all of its
            time limit
            {found.assumed_ends > 0 && ` (${found.assumed_ends} without one: a day, or as long again as they have)`}, and nobody
            to submit anything.
          </span>
        </p>
      )}
      {look.error && (
        <p className="bad-text" role="alert">
          {look.error.message}
        </p>
      )}
      <div>
        <Button size="xs" variant="default" loading={look.isPending} onClick={() => look.mutate()}>
          {found ? "Look ahead again" : "Look ahead"}
        </Button>
      </div>
    </div>
  );
}
