import { SegmentedControl, Select, TextInput } from "@mantine/core";
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";

import { ApiError } from "../api/client";
import { poolsQuery } from "../api/queries";
import type { Cycle } from "../api/types";
import { may } from "../session/access";
import { useSession } from "../session/useSession";
import { DataTable } from "../ui/DataTable";
import { localOfUtc, utcOfLocal } from "../ui/localTime";
import { NoPage, Page } from "../ui/Page";
import { PagedCard } from "../ui/PagedCard";
import { Empty } from "../ui/states";
import { Time } from "../ui/Time";
import { zoneName } from "../ui/units";
import { DECISION_KINDS } from "./search";
import { DecidedTable } from "./DecidedTable";
import { cyclesQuery, decisionsQuery } from "./queries";
import { cycleWords, kindWords } from "./words";

/** What was decided about jobs; and, for platform administrators, the cycles that decided it. */
export function DecisionsPage() {
  const { view } = useSearch({ from: "/shell/decisions" });
  const navigate = useNavigate({ from: "/decisions" });
  const mayReplay = may(useSession(), "manage_clusters", "");
  return (
    <Page
      title="Decisions"
      lead={
        view === "cycles"
          ? "Cycles of the scheduler that started or stopped a job, newest first."
          : "Starts and preemptions of the jobs that you can see, newest first."
      }
    >
      {mayReplay && (
        <SegmentedControl
          aria-label="What to list"
          data={[
            { value: "jobs", label: "Jobs" },
            { value: "cycles", label: "Cycles" },
          ]}
          value={view ?? "jobs"}
          onChange={(next) =>
            void navigate({ search: (old) => ({ ...old, view: next === "cycles" ? "cycles" : undefined }) })
          }
        />
      )}
      {view === "cycles" ? <Cycles /> : <Decided />}
    </Page>
  );
}

function Decided() {
  const { scope, decision, pool, before } = useSearch({ from: "/shell/decisions" });
  const navigate = useNavigate({ from: "/decisions" });
  const pools = useQuery(poolsQuery);
  const poolNames = pools.data?.map(({ name }) => name) ?? [];
  const lines = useInfiniteQuery(decisionsQuery({ team: scope, decision, pool, before }));
  const options = { team: scope, decision, pool };
  const isNarrowed = [scope, decision, pool, before].some((each) => each !== undefined);
  return (
    <>
      <div className="filters">
        <Select
          label="Decision"
          placeholder="any"
          clearable
          clearButtonProps={{ "aria-label": "Any decision" }}
          data={DECISION_KINDS.map((value) => ({ value, label: kindWords(value) }))}
          value={decision ?? null}
          onChange={(next) =>
            void navigate({
              search: (old) => ({ ...old, decision: DECISION_KINDS.find((each) => each === next) }),
            })
          }
        />
        {poolNames.length > 1 && (
          <Select
            label="Pool"
            placeholder="any"
            clearable
            clearButtonProps={{ "aria-label": "Any pool" }}
            data={poolNames}
            value={pool ?? null}
            onChange={(next) => void navigate({ search: (old) => ({ ...old, pool: next ?? undefined }) })}
          />
        )}
        <Before />
      </div>
      <PagedCard
        query={lines}
        label="decisions"
        lines={8}
        command={[
          "tidegate decisions",
          ...Object.entries(options).flatMap(([name, value]) => (value === undefined ? [] : [`--${name} ${value}`])),
        ].join(" ")}
        empty={
          <Empty>
            {isNarrowed
              ? "Nothing of that kind is recorded about jobs that you may see."
              : "Nothing is recorded yet about jobs that you may see. What is old is dropped in time."}
          </Empty>
        }
      >
        {(items) => <DecidedTable lines={items} />}
      </PagedCard>
    </>
  );
}

function Cycles() {
  const { before } = useSearch({ from: "/shell/decisions" });
  const cycles = useInfiniteQuery(cyclesQuery(before));
  if (cycles.error instanceof ApiError && cycles.error.status === 403) return <NotYours />;
  return (
    <>
      <div className="filters">
        <Before />
      </div>
      <PagedCard
        query={cycles}
        label="cycles"
        lines={8}
        command="tidegate replay"
        empty={<Empty>No cycle is recorded{before ? " before that" : " yet"}. What is old is dropped in time.</Empty>}
      >
        {(items) => <CycleTable cycles={items} />}
      </PagedCard>
    </>
  );
}

function Before() {
  const { before } = useSearch({ from: "/shell/decisions" });
  const navigate = useNavigate({ from: "/decisions" });
  return (
    <TextInput
      type="datetime-local"
      step={1}
      label={`Before (your time, ${zoneName(new Date())})`}
      value={before === undefined ? "" : localOfUtc(before)}
      onChange={(event) => {
        const next = utcOfLocal(event.currentTarget.value) ?? undefined;
        void navigate({ search: (old) => ({ ...old, before: next }), replace: true });
      }}
    />
  );
}

/** Whole cycles hold jobs of every organization. */
export function NotYours() {
  return (
    <NoPage title="Decision" heading="Only for platform administrators">
      <p>A cycle contains jobs of all organizations. The list of decisions has those of the jobs that you can see.</p>
      <Link to="/decisions">Decisions</Link>
    </NoPage>
  );
}

function CycleTable({ cycles }: { cycles: readonly Cycle[] }) {
  return (
    <DataTable
      rows={cycles}
      rowKey={(cycle) => cycle.id}
      columns={[
        {
          header: "Decided",
          isHeading: true,
          cell: (cycle) => (
            <>
              <Link to="/decisions/$cycleId" params={{ cycleId: cycle.id }}>
                <Time at={cycle.decided_at} show="exact" />
              </Link>
              <div className="small faint">
                <Time at={cycle.decided_at} />
              </div>
            </>
          ),
        },
        { header: "What it did", cell: (cycle) => cycleWords(cycle) },
        { header: "Version", only: "wide", className: "faint", cell: (cycle) => cycle.version },
      ]}
    />
  );
}
