import { TextInput } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";

import { ApiError } from "../api/client";
import type { Cycle } from "../api/types";
import { localOfUtc, utcOfLocal } from "../planned/draft";
import { PagedCard } from "../ui/PagedCard";
import { Empty } from "../ui/states";
import { Time } from "../ui/Time";
import { zoneName } from "../ui/units";
import { usePageTitle } from "../ui/usePageTitle";
import { cyclesQuery } from "./queries";
import { cycleWords } from "./words";

/** The cycles that started or stopped something, as they were recorded. */
export function DecisionsPage() {
  usePageTitle("Decisions");
  const { before } = useSearch({ from: "/shell/decisions" });
  const navigate = useNavigate({ from: "/decisions" });
  const cycles = useInfiniteQuery(cyclesQuery(before));
  if (cycles.error instanceof ApiError && cycles.error.status === 403) return <NotYours />;
  return (
    <>
      <h1>Decisions</h1>
      <p className="sub">
        Every cycle of the arbiter that started or stopped something, with all that it knew. The latest first.
      </p>
      <div className="filters">
        <TextInput
          type="datetime-local"
          step={1}
          label="Before"
          description={`Your time, ${zoneName(new Date())}`}
          value={before === undefined ? "" : localOfUtc(before)}
          onChange={(event) => {
            const next = utcOfLocal(event.currentTarget.value) ?? undefined;
            void navigate({ search: (old) => ({ ...old, before: next }), replace: true });
          }}
        />
      </div>
      <PagedCard
        query={cycles}
        label="decisions"
        lines={8}
        command="tidegate replay"
        empty={<Empty>No cycle is recorded{before ? " before that" : " yet"}. What is old is dropped in time.</Empty>}
      >
        {(items) => <CycleTable cycles={items} />}
      </PagedCard>
    </>
  );
}

/** Whole cycles hold jobs of every organization. */
export function NotYours() {
  return (
    <div className="card empty">
      <h1>Decisions are for platform administrators</h1>
      <p>A cycle holds jobs of all organizations. What was decided about a job stands on its own page, under Decisions.</p>
      <Link to="/jobs">Jobs</Link>
    </div>
  );
}

function CycleTable({ cycles }: { cycles: readonly Cycle[] }) {
  return (
    <table>
      <thead>
        <tr>
          <th scope="col">Decided</th>
          <th scope="col">What it did</th>
          <th scope="col" className="hide">
            Version
          </th>
        </tr>
      </thead>
      <tbody>
        {cycles.map((cycle) => (
          <tr key={cycle.id}>
            <th scope="row">
              <Link to="/decisions/$cycleId" params={{ cycleId: cycle.id }}>
                <Time at={cycle.decided_at} show="exact" />
              </Link>
              <div className="small faint">
                <Time at={cycle.decided_at} />
              </div>
            </th>
            <td>{cycleWords(cycle)}</td>
            <td className="hide faint">{cycle.version}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
