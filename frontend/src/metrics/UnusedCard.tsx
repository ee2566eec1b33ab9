import { Checkbox } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";

import type { Unused, UnusedJob } from "../api/types";
import { BulkActions } from "../jobs/BulkActions";
import { Card } from "../ui/Card";
import { CliLine } from "../ui/CliLine";
import { commandLine, shellQuote } from "../ui/command";
import { DataTable, type Column } from "../ui/DataTable";
import { Empty, Lines, QueryView } from "../ui/states";
import { Time } from "../ui/Time";
import { formatGpus, formatMemory } from "../ui/units";
import { unusedQuery } from "./queries";

/** Jobs at or below a node that hold more than they use. */
export function UnusedCard({ node }: { node: string }) {
  const unused = useQuery(unusedQuery(node));
  return (
    <Card label="Unused resources" tabIndex={0}>
      <h2>Unused resources</h2>
      <p className="small dim">
        Jobs that you may see at or below {node}. Memory and CPUs are judged after 10 minutes, and for 7 days after the end.
      </p>
      <QueryView query={unused} loading={<Lines count={4} label="Loading unused resources" />}>
        {(found) => <Lists found={found} />}
      </QueryView>
      <CliLine command={commandLine(`tidegate unused ${shellQuote(node)}`, {})} />
    </Card>
  );
}

const JOB: Column<UnusedJob> = {
  header: "Job",
  isHeading: true,
  className: "breaks",
  cell: ({ job, name }) => (
    <Link to="/jobs/$jobId" params={{ jobId: job }} search={{ tab: "metrics" }}>
      {name}
    </Link>
  ),
};
const TEAM: Column<UnusedJob> = { header: "Team", only: "wide", className: "breaks", cell: ({ team }) => team };
const USER: Column<UnusedJob> = { header: "User", cell: ({ user }) => user };

function Lists({ found }: { found: Unused }) {
  return (
    <>
      <IdleGpus found={found} />
      <h2>Less than a quarter of the memory used</h2>
      {found.memory.length === 0 ? (
        <Empty>No job with much unused memory.</Empty>
      ) : (
        <DataTable
          label="Unused memory"
          rows={found.memory}
          rowKey={({ job, attempt }) => `${job} ${attempt.toString()}`}
          columns={[
            JOB,
            TEAM,
            USER,
            { header: "Peak", isRight: true, cell: ({ summary }) => formatMemory(summary.memory_peak_bytes) },
            { header: "Asked for", isRight: true, cell: ({ summary }) => formatMemory(summary.memory_asked_bytes) },
          ]}
        />
      )}
      <h2>Less than a quarter of the CPUs used</h2>
      {found.cpus.length === 0 ? (
        <Empty>No job with many unused CPUs.</Empty>
      ) : (
        <DataTable
          label="Unused CPUs"
          rows={found.cpus}
          rowKey={({ job, attempt }) => `${job} ${attempt.toString()}`}
          columns={[
            JOB,
            TEAM,
            USER,
            { header: "Cores", isRight: true, cell: ({ summary }) => formatGpus(summary.cpu_milli ?? 0) },
            { header: "Used", isRight: true, cell: ({ summary }) => `${((summary.cpu_efficiency_permille ?? 0) / 10).toFixed(1)} %` },
          ]}
        />
      )}
    </>
  );
}

function IdleGpus({ found }: { found: Unused }) {
  const [marked, setMarked] = useState<readonly string[]>([]);
  const chosen = marked.filter((id) => found.idle_gpus.some(({ job }) => job === id));
  const toggle = (id: string) => setMarked(chosen.includes(id) ? chosen.filter((each) => each !== id) : [...chosen, id]);
  return (
    <>
      <h2>Idle GPUs</h2>
      {found.idle_gpus.length === 0 ? (
        <Empty>
          {found.reports_gpus
            ? "No running job has left all its GPUs idle for 10 minutes."
            : "Not reported: no cluster of the running jobs reports GPU use."}
        </Empty>
      ) : (
        <>
          {chosen.length > 0 && <BulkActions chosen={chosen} filter={{}} onDone={() => setMarked([])} />}
          <DataTable
            label="Idle GPUs"
            rows={found.idle_gpus}
            rowKey={({ job }) => job}
            columns={[
              {
                header: <span className="visually-hidden">Choice</span>,
                className: "choice",
                cell: ({ job, name }) => (
                  <Checkbox size="xs" aria-label={`Choose ${name}`} checked={chosen.includes(job)} onChange={() => toggle(job)} />
                ),
              },
              JOB,
              TEAM,
              USER,
              { header: "GPUs", isRight: true, cell: ({ mgpu }) => formatGpus(mgpu) },
              {
                header: "Process",
                only: "wide",
                cell: ({ summary }) => (summary.gpus_are_held ? "yes" : "none"),
              },
              {
                header: "Idle since",
                cell: ({ summary }) => summary.gpus_idle_since && <Time at={summary.gpus_idle_since} />,
              },
            ]}
          />
        </>
      )}
    </>
  );
}
