import { Anchor, Button } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { client, unwrap } from "../api/client";
import { may } from "../session/access";
import { useSession } from "../session/useSession";
import { Card } from "../ui/Card";
import { CliLine } from "../ui/CliLine";
import { DataTable } from "../ui/DataTable";
import { Empty, Lines, QueryView } from "../ui/states";
import { Time } from "../ui/Time";
import { toastError } from "../ui/toast";
import { formatCount, sizeOf } from "../ui/units";
import { Choice, DATASETS, FORMATS } from "./exportChoices";
import { FocusUsers } from "./FocusUsers";
import { exportsQuery, type Export, type ExportDataset, type ExportFormat } from "./exportQueries";

const TONES = { queued: "wait", running: "wait", done: "run", failed: "bad" } as const;

/** A period as times, and its pool. */
type Period = { start: string; end: string; pool?: string };

/** Files with the charges of every job of the report's period, and the latest ones. */
export function Exports({ filter, node }: { filter: Period; node: string | undefined }) {
  const session = useSession();
  const exports = useQuery(exportsQuery);
  if (node === undefined || !may(session, "view_jobs", node)) return null;
  return (
    <Card label="Export charges" tabIndex={0}>
      <h2>Export charges</h2>
      <p className="sub">One row per job attempt, usage class and day (UTC), below {node} in this period.</p>
      <Request filter={filter} node={node} />
      <FocusUsers node={node} />
      <QueryView query={exports} loading={<Lines count={2} label="Loading the exports" />}>
        {(items) => (items.length === 0 ? <Empty>No exports yet.</Empty> : <ExportTable items={items} />)}
      </QueryView>
    </Card>
  );
}

function Request({ filter, node }: { filter: Period; node: string }) {
  const queries = useQueryClient();
  const [dataset, setDataset] = useState<ExportDataset>("charges");
  const [format, setFormat] = useState<ExportFormat>("csv");
  const request = useMutation({
    mutationFn: () =>
      unwrap(
        client.POST("/api/v1/exports", {
          body: { dataset, format, node, start: filter.start, end: filter.end, pool: filter.pool ?? null },
        }),
      ),
    onSuccess: () => queries.invalidateQueries({ queryKey: ["reports", "exports"] }),
    onError: toastError,
  });
  const command = [
    `tidegate export create ${node}${dataset === "charges" ? "" : ` --dataset ${dataset}`} --format ${format} --start ${filter.start} --end ${filter.end}`,
    filter.pool && `--pool ${filter.pool}`,
  ]
    .filter(Boolean)
    .join(" ");
  return (
    <>
    <div className="filters">
      <Choice label="Content" choices={DATASETS} value={dataset} onChange={setDataset} />
      <Choice label="Format" choices={FORMATS} value={format} onChange={setFormat} />
      <Button variant="default" loading={request.isPending} onClick={() => request.mutate()}>
        Export
      </Button>
    </div>
    <CliLine command={command} />
    </>
  );
}

function ExportTable({ items }: { items: readonly Export[] }) {
  return (
    <DataTable
      label="Exports"
      rows={items}
      rowKey={({ id }) => id}
      columns={[
        {
          header: "File",
          isHeading: true,
          cell: (item) =>
            item.state === "done" && item.removed_at === null ? (
              <Anchor href={`/api/v1/exports/${item.id}/file`} download={item.file_name} className="file-name">
                {item.file_name}
              </Anchor>
            ) : (
              <span className="file-name">{item.file_name}</span>
            ),
        },
        {
          header: "State",
          cell: (item) => (
            <>
              <span className={`pill ${item.removed_at === null ? TONES[item.state] : "wait"}`}>{stateOf(item)}</span>
              {item.message !== "" && <span className="small faint"> {item.message}</span>}
              {(item.removed_at !== null || item.state === "failed") && <MakeAgain item={item} />}
            </>
          ),
        },
        {
          header: "Rows",
          isRight: true,
          cell: ({ manifest }) => (manifest === null ? "–" : formatCount(manifest.rows)),
        },
        { header: "Size", isRight: true, only: "wide", cell: ({ manifest }) => sizeOf(manifest?.size_bytes) },
        {
          header: "Requested",
          only: "wide",
          cell: (item) => (
            <>
              <Time at={item.created_at} /> <span className="faint">by {item.requested_by}</span>
            </>
          ),
        },
      ]}
    />
  );
}

function MakeAgain({ item }: { item: Export }) {
  const queries = useQueryClient();
  const again = useMutation({
    mutationFn: () =>
      unwrap(client.POST("/api/v1/exports/{export_id}/again", { params: { path: { export_id: item.id } } })),
    onSuccess: () => queries.invalidateQueries({ queryKey: ["reports", "exports"] }),
    onError: toastError,
  });
  return (
    <>
      {" "}
      <Button
        size="compact-sm"
        variant="default"
        aria-label={`Make again: ${item.file_name}`}
        loading={again.isPending}
        onClick={() => again.mutate()}
      >
        Make again
      </Button>
    </>
  );
}

function stateOf({ state, progress_permille, removed_at }: Export): string {
  if (removed_at !== null) return "file removed";
  return state === "running" ? `running ${Math.floor(progress_permille / 10)}%` : state;
}
