import { useInfiniteQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";

import { plannedChangesQuery } from "../planned/queries";
import { Card } from "../ui/Card";
import { CliLine } from "../ui/CliLine";
import { DataTable } from "../ui/DataTable";
import { Time } from "../ui/Time";

const SHOWN = 5;

/** Drafts of quota changes that the reader may apply. Nothing where there is none. */
export function WaitingForDecision() {
  const drafts = useInfiniteQuery(plannedChangesQuery("draft"));
  const waiting = (drafts.data?.pages ?? []).flatMap(({ items }) => items).filter(({ can_apply }) => can_apply);
  if (waiting.length === 0) return null;
  return (
    <Card label="Waiting for your decision" tone="note">
      <h2>Waiting for your decision</h2>
      <DataTable
        className="changes"
        rows={waiting.slice(0, SHOWN)}
        rowKey={(change) => change.id}
        columns={[
          {
            header: "Change of quotas",
            isHeading: true,
            cell: (change) => (
              <>
                <Link to="/quota-changes/$plannedId" params={{ plannedId: change.id }}>
                  {change.reason}
                </Link>
                <div className="small faint">{change.node}</div>
              </>
            ),
          },
          { header: "Drafted by", only: "wide", cell: (change) => change.created_by },
          { header: "Expires", cell: (change) => <Time at={change.expires_at} /> },
        ]}
      />
      <div className="spread more">
        <Link to="/quota-changes" search={{ status: "draft" }}>
          All drafts
        </Link>
        <CliLine command="tidegate quota-changes list --status draft" />
      </div>
    </Card>
  );
}
