import { TextInput } from "@mantine/core";
import { useState } from "react";

import type { ChangeRequestDetail, RequestSupply } from "../api/types";
import { lastPart } from "../jobs/words";
import { QuotaBar } from "../quotas/QuotaBar";
import { Card } from "../ui/Card";
import { DataTable } from "../ui/DataTable";
import { formatGpus, parseGpus } from "../ui/units";
import { sumOf, barOf, type Gives } from "./words";

interface Row {
  node: string;
  guaranteedMgpu: number;
  inUseMgpu: number;
  offeredMgpu: number;
  changeMgpu: number;
  isSource: boolean;
}

/** The node and its siblings now and after the change, with a field for what each sibling gives. */
export function SourcesTable({
  request,
  supply,
  amountMgpu,
  gives,
  onChange,
}: {
  request: ChangeRequestDetail;
  supply: RequestSupply;
  amountMgpu: number;
  gives: Gives;
  onChange: (gives: Gives) => void;
}) {
  const rows: Row[] = [
    {
      node: request.node,
      guaranteedMgpu: supply.guaranteed_mgpu,
      inUseMgpu: supply.in_use_mgpu,
      offeredMgpu: 0,
      changeMgpu: amountMgpu,
      isSource: false,
    },
    ...supply.sources.map((source) => ({
      node: source.node,
      guaranteedMgpu: source.guaranteed_mgpu,
      inUseMgpu: source.in_use_mgpu,
      offeredMgpu: source.offered_mgpu,
      changeMgpu: -(gives[source.node] ?? 0),
      isSource: true,
    })),
  ];
  const scale = Math.max(1000, ...rows.map((row) => Math.max(row.guaranteedMgpu + Math.max(0, row.changeMgpu), row.inUseMgpu)));
  const fromReserve = Math.max(0, amountMgpu - sumOf(gives));
  return (
    <Card label="Sources">
      <h2>Sources</h2>
      <DataTable
        label="Sources"
        className="request-sources"
        rows={rows}
        rowKey={({ node }) => node}
        columns={[
          {
            header: "Team",
            isHeading: true,
            title: ({ node }) => node,
            cell: (row) => (
              <>
                {lastPart(row.node)}
                {row.offeredMgpu > 0 && <div className="small dim">offers {formatGpus(row.offeredMgpu)}</div>}
              </>
            ),
          },
          {
            header: "Use now",
            only: "wide",
            cell: (row) => <QuotaBar use={barOf(row.guaranteedMgpu, row.inUseMgpu, "gpu")} scaleMgpu={scale} />,
          },
          {
            header: "Use after",
            only: "wide",
            cell: (row) => (
              <QuotaBar use={barOf(Math.max(0, row.guaranteedMgpu + row.changeMgpu), row.inUseMgpu, "gpu")} scaleMgpu={scale} />
            ),
          },
          { header: "In use", isRight: true, cell: (row) => formatGpus(row.inUseMgpu) },
          { header: "Guarantee", isRight: true, cell: (row) => formatGpus(row.guaranteedMgpu) },
          { header: "After", isRight: true, cell: (row) => <b>{formatGpus(row.guaranteedMgpu + row.changeMgpu)}</b> },
          {
            header: "Gives",
            isRight: true,
            cell: (row) =>
              row.isSource ? (
                <GivesField
                  node={row.node}
                  mgpu={gives[row.node] ?? 0}
                  onChange={(mgpu) => onChange({ ...gives, [row.node]: mgpu })}
                />
              ) : null,
          },
        ]}
      />
      <p className="small dim">
        {fromReserve > supply.reserve_mgpu
          ? `${formatGpus(fromReserve - supply.reserve_mgpu)} are missing: the parent's reserve is ${formatGpus(supply.reserve_mgpu)}.`
          : fromReserve > 0
            ? `${formatGpus(fromReserve)} come from the parent's reserve of ${formatGpus(supply.reserve_mgpu)}.`
            : `The parent's reserve of ${formatGpus(supply.reserve_mgpu)} is not used.`}{" "}
        {request.until !== null && "The guarantees return at the end."}
      </p>
    </Card>
  );
}

/** The typed number of GPUs in milli-GPU: 0 for an empty field, null for one that cannot be read. */
function readGives(text: string): number | null {
  return text.trim() === "" ? 0 : parseGpus(text);
}

function GivesField({ node, mgpu, onChange }: { node: string; mgpu: number; onChange: (mgpu: number | null) => void }) {
  const [text, setText] = useState(String(mgpu / 1000));
  return (
    <TextInput
      aria-label={`GPUs from ${node}`}
      size="xs"
      inputMode="decimal"
      value={text}
      error={readGives(text) === null && "A number of GPUs, such as 16."}
      onChange={(event) => {
        setText(event.currentTarget.value);
        onChange(readGives(event.currentTarget.value));
      }}
    />
  );
}
