import { Button, Checkbox } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useState } from "react";

import { client, unwrap } from "../api/client";
import { quotaPushesQuery, quotaPushQuery } from "../api/queries";
import type { Cluster, QuotaPush, QuotaPushSummary } from "../api/types";
import { Confirm } from "../ui/Confirm";
import { DataTable } from "../ui/DataTable";
import { Empty, Lines, QueryView } from "../ui/states";
import { Time } from "../ui/Time";
import { toastError } from "../ui/toast";
import { formatCount } from "../ui/units";
import { AcceptedDifferences } from "./AcceptedDifferences";
import { Settings, Subject } from "./differences";
import { isRefused, outcomeOf, PUSH_WORDS, type PushKind, type SubjectNames } from "./pushes";

/**
 * The quota tree against the cluster's own limits: compare, push, or let a difference stand.
 * Everything is asked of the cluster by the observer, so each request is a row with a result.
 */
export function QuotaPushes({ cluster }: { cluster: Cluster }) {
  const pushes = useQuery(quotaPushesQuery(cluster.id));
  const { push: chosen } = useSearch({ from: "/shell/clusters/$name" });
  const navigate = useNavigate({ from: "/clusters/$name" });
  const queryClient = useQueryClient();
  const [isAsked, setAsked] = useState(false);
  const choose = (id: string | undefined) =>
    void navigate({ search: (before) => ({ ...before, push: id }), replace: true });
  const request = useMutation({
    mutationFn: ({ kind, subjects = [] }: { kind: PushKind; subjects?: string[] }) =>
      unwrap(
        client.POST("/api/v1/clusters/{cluster_id}/quota-pushes", {
          params: { path: { cluster_id: cluster.id } },
          body: { kind, subjects },
        }),
      ),
    onSuccess: (made) => {
      void queryClient.invalidateQueries({ queryKey: quotaPushesQuery(cluster.id).queryKey });
      choose(made.id);
    },
    onError: toastError,
    onSettled: () => setAsked(false),
  });
  return (
    <>
      <p className="dim">{cluster.words.limits} Here they are compared with the tree.</p>
      <div className="inline">
        <Button variant="default" loading={request.isPending} onClick={() => request.mutate({ kind: "dry_run" })}>
          Dry run
        </Button>
        <Button disabled={request.isPending} onClick={() => setAsked(true)}>
          Push…
        </Button>
      </div>
      <Confirm
        title={`Push the quotas to ${cluster.name}?`}
        isOpen={isAsked}
        isBusy={request.isPending}
        confirmLabel="Push"
        onConfirm={() => request.mutate({ kind: "push" })}
        onClose={() => setAsked(false)}
      >
        Its {cluster.words.limit_objects} become
        what the tree says. Differences that were accepted stay. What is taken is taken before anything is given; no
        running job is stopped.
      </Confirm>
      <QueryView query={pushes} loading={<Lines count={4} label="Loading comparisons" />}>
        {(items) =>
          items.length === 0 ? (
            <Empty>No comparison yet. A dry run shows what a push would change.</Empty>
          ) : (
            <div className="rows">
              <PushTable pushes={items} chosen={chosen ?? items[0]?.id} />
              <PushDetail
                key={chosen ?? items[0]?.id}
                cluster={cluster}
                id={chosen ?? items[0]?.id ?? ""}
                isBusy={request.isPending}
                onAccept={(subjects) => request.mutate({ kind: "accept", subjects })}
              />
              <AcceptedDifferences cluster={cluster} />
            </div>
          )
        }
      </QueryView>
    </>
  );
}

function PushTable({ pushes, chosen }: { pushes: readonly QuotaPushSummary[]; chosen: string | undefined }) {
  return (
    <DataTable
      label="Comparisons"
      rows={pushes}
      rowKey={(push) => push.id}
      isCurrent={(push) => push.id === chosen}
      columns={[
        {
          header: "Asked",
          isHeading: true,
          cell: (push) => (
            <Link to="." search={(before: object) => ({ ...before, push: push.id })} replace>
              <Time at={push.requested_at} />
            </Link>
          ),
        },
        { header: "What", cell: (push) => PUSH_WORDS[push.kind] },
        {
          header: "Result",
          cell: (push) => (
            <>
              <OutcomePill push={push} />
              {push.error && <div className="small dim node-words">{push.error}</div>}
            </>
          ),
        },
        { header: "By", only: "wide", cell: (push) => push.requested_by ?? "by itself" },
      ]}
    />
  );
}

function OutcomePill({ push }: { push: QuotaPushSummary }) {
  const { words, tone } = outcomeOf(push);
  return <span className={`pill ${tone}`}>{words}</span>;
}

function PushDetail({
  cluster,
  id,
  isBusy,
  onAccept,
}: {
  cluster: Cluster;
  id: string;
  isBusy: boolean;
  onAccept: (subjects: string[]) => void;
}) {
  const push = useQuery(quotaPushQuery(cluster.id, id));
  return (
    <QueryView query={push} loading={<Lines count={4} label="Loading the differences" />}>
      {(data) => (
        <Changes push={data} subjects={cluster.words.subjects} isBusy={isBusy} onAccept={onAccept} />
      )}
    </QueryView>
  );
}

function Changes({
  push,
  subjects: names,
  isBusy,
  onAccept,
}: {
  push: QuotaPush;
  subjects: SubjectNames;
  isBusy: boolean;
  onAccept: (subjects: string[]) => void;
}) {
  const [subjects, setSubjects] = useState<readonly string[]>([]);
  if (push.done_at === null) {
    return (
      <p role="status">
        <span className="pill wait">waits for the cluster</span> {push.error}
      </p>
    );
  }
  if (push.changes.length === 0) {
    return (
      <p className="dim">
        {push.status === "failed" ? push.error : "The cluster's limits are what the tree says."}{" "}
        <Time at={push.done_at} show="both" />
      </p>
    );
  }
  const mayAccept = push.kind === "check" || push.kind === "dry_run";
  const more = push.change_count - push.changes.length;
  return (
    <section aria-label="Differences">
      <div className="spread">
        <h2>
          {PUSH_WORDS[push.kind]} <Time at={push.done_at} show="both" />
        </h2>
        {mayAccept && (
          <Button
            variant="default"
            size="xs"
            loading={isBusy}
            disabled={subjects.length === 0}
            onClick={() => onAccept([...subjects])}
          >
            {subjects.length === 0 ? "Let chosen stand" : `Let ${formatCount(subjects.length)} stand`}
          </Button>
        )}
      </div>
      <div className="scroll-x">
        <DataTable
          className="changes"
          label="Differences"
          rows={push.changes}
          rowKey={(change) => `${change.kind} ${change.subject}`}
          columns={[
            mayAccept && {
              header: <span className="visually-hidden">Chosen</span>,
              cell: (change) => (
                <Checkbox
                  aria-label={`Choose ${change.subject}`}
                  checked={subjects.includes(change.subject)}
                  onChange={(event) =>
                    setSubjects(
                      event.currentTarget.checked
                        ? [...subjects, change.subject]
                        : subjects.filter((each) => each !== change.subject),
                    )
                  }
                />
              ),
            },
            {
              header: "What",
              isHeading: true,
              cell: (change) => (
                <>
                  <span className="pill">{change.kind}</span> <Subject subject={change.subject} names={names} />
                  {change.note && <div className="small dim">{change.note}</div>}
                </>
              ),
            },
            { header: "It has", cell: (change) => <Settings change={change} side="before" /> },
            { header: "It should have", cell: (change) => <Settings change={change} side="after" /> },
            {
              header: "Result",
              only: mayAccept ? "wide" : undefined,
              tone: (change) => (isRefused(change) ? "bad-text" : undefined),
              cell: (change) => change.result,
            },
          ]}
        />
      </div>
      {more > 0 && <p className="dim">and {formatCount(more)} more</p>}
    </section>
  );
}
