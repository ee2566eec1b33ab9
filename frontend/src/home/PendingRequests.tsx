import { useInfiniteQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";

import type { ChangeRequest } from "../api/types";
import { RequestPill } from "../requests/RequestPill";
import { requestsQuery } from "../requests/queries";
import { Card } from "../ui/Card";
import { Time } from "../ui/Time";
import { formatCount } from "../ui/units";

const SHOWN = 6;

/** Requests that wait for the reader's decision, then their own open ones. Nothing where there is none. */
export function PendingRequests({ scope }: { scope: string | undefined }) {
  const toDecide = useInfiniteQuery(requestsQuery({ view: "to_decide", node: scope }));
  const own = useInfiniteQuery(requestsQuery({ view: "mine", node: scope }));
  const items = [toDecide, own].flatMap(({ data }) => (data?.pages ?? []).flatMap((page) => page.items));
  const open = items.filter(({ id }, i) => items.findIndex((each) => each.id === id) === i);
  if (open.length === 0) return null;
  const hasMore = toDecide.hasNextPage || own.hasNextPage;
  return (
    <Card label="Pending requests">
      <div className="spread">
        <h2>Pending requests</h2>
        <span className="small faint">
          {formatCount(open.length)}
          {hasMore && " and more"}
        </span>
      </div>
      <ul className="pending">
        {open.slice(0, SHOWN).map((request) => (
          <li key={request.id} className="spread">
            <div>
              <Link to="/requests" search={{ view: viewOf(request), request: request.id }}>
                {request.title}
              </Link>
              <div className="small faint">
                {request.is_yours ? "yours · expires " : `${request.asked_by} · `}
                <Time at={request.is_yours ? request.expires_at : request.asked_at} />
              </div>
            </div>
            {request.can_decide ? (
              <Link to="/requests" search={{ view: "to_decide", request: request.id }} className="pill" aria-label={`Decide ${request.title}`}>
                Decide
              </Link>
            ) : (
              <RequestPill status={request.status} />
            )}
          </li>
        ))}
      </ul>
      <p className="more">
        <Link to="/requests">All requests</Link>
      </p>
    </Card>
  );
}

function viewOf({ can_decide: canDecide }: ChangeRequest): "to_decide" | "mine" {
  return canDecide ? "to_decide" : "mine";
}
