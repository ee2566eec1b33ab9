import { Select } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";

import type { PlannedChange } from "../api/types";
import { may } from "../session/access";
import { useSession } from "../session/useSession";
import { DataTable } from "../ui/DataTable";
import { Page } from "../ui/Page";
import { PagedCard } from "../ui/PagedCard";
import { Empty } from "../ui/states";
import { Time } from "../ui/Time";
import { PLANNED_STATUSES } from "./search";
import { plannedChangesQuery } from "./queries";
import { describeEdit, statusTone, statusWord, wasApplied } from "./words";
import "./planned.css";

const EDITS_SHOWN = 3;

/** Changes of quotas that are drafted, scheduled or decided, newest first. */
export function PlannedChangesPage() {
  const { status } = useSearch({ from: "/shell/quota-changes" });
  const navigate = useNavigate({ from: "/quota-changes" });
  const session = useSession();
  const changes = useInfiniteQuery(plannedChangesQuery(status));
  const mayDraft = may(session, "manage_quota");
  return (
    <Page
      title="Planned changes"
      lead="Drafts of quota changes: preview them, apply them now or at a set time, and revert them."
      actions={
        mayDraft && (
          <Link to="/quota-changes/new" className="button-like">
            Change quotas…
          </Link>
        )
      }
    >
      <div className="filters">
        <Select
          label="State"
          data={PLANNED_STATUSES.map((value) => ({ value, label: statusWord({ status: value, revert_at: null }) }))}
          placeholder="all"
          clearable
          clearButtonProps={{ "aria-label": "All states" }}
          value={status ?? null}
          onChange={(next) =>
            void navigate({
              search: (before) => ({ ...before, status: PLANNED_STATUSES.find((each) => each === next) }),
            })
          }
        />
      </div>
      <PagedCard
        query={changes}
        label="planned changes"
        lines={6}
        command={`tidegate quota-changes list${status ? ` --status ${status}` : ""}`}
        empty={
          <Empty action={mayDraft ? <Link to="/quota-changes/new">Draft the first</Link> : undefined}>
            {status
              ? `No planned change that you can see is ${statusWord({ status, revert_at: null })}.`
              : "No change of quotas was planned yet that you can see."}
          </Empty>
        }
      >
        {(items) => <ChangeTable changes={items} />}
      </PagedCard>
    </Page>
  );
}

function ChangeTable({ changes }: { changes: readonly PlannedChange[] }) {
  return (
    <DataTable
      className="changes"
      rows={changes}
      rowKey={(change) => change.id}
      columns={[
        {
          header: "Why",
          isHeading: true,
          cell: (change) => (
            <>
              <Link to="/quota-changes/$plannedId" params={{ plannedId: change.id }}>
                {change.reason}
              </Link>
              <div className="small faint">{change.node}</div>
              <div className="only-phone small dim">
                <Edits change={change} />
              </div>
            </>
          ),
        },
        { header: "What", only: "wide", cell: (change) => <Edits change={change} /> },
        {
          header: "State",
          cell: (change) => (
            <>
              <StatusPill change={change} />
              <div className="small faint">
                <NextMoment change={change} />
              </div>
            </>
          ),
        },
        {
          header: "Drafted",
          only: "wide",
          cell: (change) => (
            <>
              <Time at={change.created_at} />
              <div className="small faint">{change.created_by}</div>
            </>
          ),
        },
      ]}
    />
  );
}

function Edits({ change }: { change: PlannedChange }) {
  const pools = new Set(change.edits.map((edit) => edit.pool));
  const shown = change.edits.slice(0, EDITS_SHOWN);
  return (
    <ul>
      {shown.flatMap((edit) =>
        describeEdit(edit, wasApplied(change)).map((line) => (
          <li key={`${edit.quota} ${line}`}>
            {line}
            {pools.size > 1 && <span className="faint"> · {edit.pool}</span>}
          </li>
        )),
      )}
      {change.edits.length > shown.length && (
        <li className="faint">and {change.edits.length - shown.length} more</li>
      )}
    </ul>
  );
}

export function StatusPill({ change }: { change: Pick<PlannedChange, "status" | "revert_at"> }) {
  const tone = statusTone(change.status);
  return <span className={tone ? `pill ${tone}` : "pill"}>{statusWord(change)}</span>;
}

/** The time that matters next, or when it ended. */
function NextMoment({ change }: { change: PlannedChange }) {
  switch (change.status) {
    case "draft":
      return change.apply_at === null ? (
        <>
          expires <Time at={change.expires_at} />
        </>
      ) : (
        <>
          due <Time at={change.apply_at} />
        </>
      );
    case "scheduled":
      return <>{change.apply_at && <Time at={change.apply_at} />}</>;
    case "applied":
      return change.revert_at === null ? (
        <>{change.applied_at && <Time at={change.applied_at} />}</>
      ) : (
        <>
          reverts <Time at={change.revert_at} />
        </>
      );
    default:
      return <>{change.ended_at && <Time at={change.ended_at} />}</>;
  }
}
