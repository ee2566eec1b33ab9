import type { PreemptionHistory } from "../api/types";
import { Card } from "../ui/Card";
import { DataTable } from "../ui/DataTable";
import { Empty } from "../ui/states";
import { deviceTime, formatCount, formatGpuHours } from "../ui/units";
import { CsvLink } from "./CsvLink";
import type { Asked } from "./queries";

/** Preemptions, for whom, and the work that they cost. */
export function PreemptionsCard({ found, asked }: { found: PreemptionHistory; asked: Asked }) {
  const hours = deviceTime(found.device, "h");
  return (
    <Card label="Preemptions" tabIndex={0}>
      <div className="spread">
        <h2>Preemptions</h2>
        <CsvLink asked={asked} table="preemptions" />
      </div>
      <p className="small dim">Lost work is the work since the last checkpoint, or since the start.</p>
      {found.rows.length === 0 ? (
        <Empty>No job was preempted in this period.</Empty>
      ) : (
        <>
          <DataTable
            label="Preemptions"
            rows={found.rows}
            rowKey={({ team, for_team: other }) => `${team} ${other}`}
            columns={[
              { header: "Team", isHeading: true, className: "breaks", cell: ({ team }) => team },
              { header: "Preempted for", className: "breaks", cell: ({ for_team: other }) => other },
              { header: "Times", isRight: true, cell: ({ preemptions }) => formatCount(preemptions) },
              { header: "Jobs", isRight: true, only: "wide", cell: ({ jobs }) => formatCount(jobs) },
              { header: `Lost, ${hours}`, isRight: true, cell: ({ lost_mgpu_s: lost }) => formatGpuHours(lost) },
            ]}
          />
          <p className="small">
            Jobs of this node: preempted {formatCount(found.preemptions)} times, {formatGpuHours(found.lost_mgpu_s)} {hours} lost.
          </p>
        </>
      )}
    </Card>
  );
}
