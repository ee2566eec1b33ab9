import { useInfiniteQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";

import { plannedChangesQuery } from "../planned/queries";
import { CliLine } from "../ui/CliLine";
import { Time } from "../ui/Time";

const SHOWN = 5;

/** Drafts of quota changes that the reader may apply. Nothing where there is none. */
export function WaitingForDecision() {
  const drafts = useInfiniteQuery(plannedChangesQuery("draft"));
  const waiting = (drafts.data?.pages ?? []).flatMap(({ items }) => items).filter(({ can_apply }) => can_apply);
  if (waiting.length === 0) return null;
  return (
    <section className="card mark" aria-label="Waiting for your decision">
      <h2>Waiting for your decision</h2>
      <table className="changes">
        <thead>
          <tr>
            <th scope="col">Change of quotas</th>
            <th scope="col" className="hide">
              Drafted by
            </th>
            <th scope="col">Expires</th>
          </tr>
        </thead>
        <tbody>
          {waiting.slice(0, SHOWN).map((change) => (
            <tr key={change.id}>
              <th scope="row">
                <Link to="/quota-changes/$plannedId" params={{ plannedId: change.id }}>
                  {change.reason}
                </Link>
                <div className="small faint">{change.node}</div>
              </th>
              <td className="hide">{change.created_by}</td>
              <td>
                <Time at={change.expires_at} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      <div className="spread more">
        <Link to="/quota-changes" search={{ status: "draft" }}>
          All drafts
        </Link>
        <CliLine command="tidegate quota-changes list --status draft" />
      </div>
    </section>
  );
}
