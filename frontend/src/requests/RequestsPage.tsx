import { Button } from "@mantine/core";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";

import type { ChangeRequest, RequestCounts } from "../api/types";
import { Card } from "../ui/Card";
import { CliLine } from "../ui/CliLine";
import { commandLine } from "../ui/command";
import { Page } from "../ui/Page";
import { Empty, Lines, QueryView } from "../ui/states";
import { Time } from "../ui/Time";
import { AskDialog } from "./AskDialog";
import { requestCountsQuery, requestsQuery } from "./queries";
import { RequestDetail } from "./RequestDetail";
import { RequestPill } from "./RequestPill";
import { VIEWS, type RequestsSearch, type RequestView } from "./search";
import { KIND_WORDS } from "./words";
import "./requests.css";

const VIEW_WORDS: Record<RequestView, string> = { to_decide: "To decide", mine: "Mine", decided: "Decided", all: "All" };
const EMPTY_WORDS: Record<RequestView, string> = {
  to_decide: "No request waits for your decision.",
  mine: "You have no open request.",
  decided: "No request was decided yet.",
  all: "There is no request yet.",
};

/** Requests to decide, my own, the decided ones, or all that I may read, with the one that is open. */
export function RequestsPage() {
  const { scope, view = "to_decide", request: opened, status, since, until, ...asked } = useSearch({ from: "/shell/requests" });
  const navigate = useNavigate({ from: "/requests" });
  const requests = useInfiniteQuery(requestsQuery({ view, node: scope, status, since, until }));
  const isNarrowed = status !== undefined || since !== undefined || until !== undefined;
  const counts = useQuery(requestCountsQuery).data;
  const first = requests.data?.pages[0]?.items[0]?.id;
  const shown = opened ?? first;
  return (
    <Page
      title="Requests"
      lead="Changes that people ask for. The nearest people in the tree who may make a change decide it."
      actions={
        <Button
          onClick={() => void navigate({ search: (old) => ({ ...old, ask: "guarantee" }) })}
        >
          New request…
        </Button>
      }
    >
      <nav className="request-views inline" aria-label="Requests">
        {VIEWS.map((each) => (
          <Link
            key={each}
            to="/requests"
            search={{ scope, view: each }}
            aria-current={each === view ? "page" : undefined}
            activeOptions={{ exact: true, includeSearch: true }}
          >
            {VIEW_WORDS[each]} {counts && countOf(counts, each)}
          </Link>
        ))}
      </nav>
      {isNarrowed && (
        <p className="inline">
          Only {status ?? "decided"} requests
          {since !== undefined && (
            <>
              , decided since <Time at={since} show="exact" />
            </>
          )}
          {until !== undefined && (
            <>
              , decided before <Time at={until} show="exact" />
            </>
          )}
          <Link to="/requests" search={{ scope, view }}>
            Show all
          </Link>
        </p>
      )}
      <div className="request-columns">
        <Card label={VIEW_WORDS[view]} className="request-list">
          <QueryView query={requests} loading={<Lines count={5} label="Loading requests" />}>
            {({ pages }) => {
              const items = pages.flatMap((page) => page.items);
              return items.length === 0 ? (
                <Empty>{isNarrowed ? "No request matches." : EMPTY_WORDS[view]}</Empty>
              ) : (
                <ul>
                  {items.map((item) => (
                    <li key={item.id}>
                      <RequestLink item={item} list={{ scope, view, status, since, until }} isOpen={item.id === shown} />
                    </li>
                  ))}
                </ul>
              );
            }}
          </QueryView>
          {requests.hasNextPage && (
            <Button variant="default" loading={requests.isFetchingNextPage} onClick={() => void requests.fetchNextPage()}>
              Earlier ones
            </Button>
          )}
        </Card>
        {shown !== undefined && <RequestDetail key={shown} id={shown} />}
      </div>
      <p className="sub" style={{ marginTop: 14 }}>
        <CliLine command={commandLine("tidegate requests list", { view: view === "all" ? null : view, status, node: scope, since, until })} />
      </p>
      {asked.ask && (
        <AskDialog
          {...asked}
          kind={asked.ask}
          onClose={(made) => void navigate({ search: { scope, view: made ? "mine" : view, request: made ?? opened } })}
        />
      )}
    </Page>
  );
}

/** The number of requests of a view; null for all, which nobody counts. */
function countOf(counts: RequestCounts, view: RequestView): number | null {
  return view === "all" ? null : counts[view];
}

function RequestLink({
  item,
  list,
  isOpen,
}: {
  item: ChangeRequest;
  list: RequestsSearch & { scope?: string };
  isOpen: boolean;
}) {
  return (
    <Link
      to="/requests"
      search={{ ...list, request: item.id }}
      aria-current={isOpen ? "true" : undefined}
      activeProps={{ "aria-current": isOpen ? "true" : undefined }}
    >
      <b>{item.title}</b>
      <span className="small dim">
        {item.asked_by} · {KIND_WORDS[item.kind]} · <Time at={item.asked_at} />
      </span>
      {item.status !== "pending" && <RequestPill status={item.status} />}
    </Link>
  );
}
