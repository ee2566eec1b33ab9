import type { DecisionLine } from "../api/types";
import { DataTable } from "../ui/DataTable";
import { Time } from "../ui/Time";
import { countUnder, DEVICE_HEADS, deviceTime, formatGpuCount, formatGpuHours, headOf, hoursUnder } from "../ui/units";
import { JobName } from "./DecisionList";
import { kindTone, kindWords, partWords, rightWords } from "./words";

/** What was decided about jobs, a row each: whom it was for or from, and what work was at risk. */
export function DecidedTable({ lines }: { lines: readonly DecisionLine[] }) {
  const head = headOf(lines);
  return (
    <DataTable
      rows={lines}
      rowKey={(line) => line.id}
      columns={[
        {
          header: "Job",
          isHeading: true,
          className: "wraps",
          cell: (line) => (
            <>
              <JobName job={line.job} />
              <div className="small faint">{line.job.team}</div>
              <div className="small dim">
                <OtherSide line={line} />
              </div>
            </>
          ),
        },
        {
          header: "Decided",
          cell: (line) => (
            <>
              <span className={`pill ${kindTone(line.decision)}`}>{kindWords(line.decision, line.device)}</span>
              <div className="small faint">
                <Time at={line.decided_at} />
              </div>
              <div className="only-phone small dim">
                {formatGpuCount(line.mgpu, line.device)}
                {line.at_risk_mgpu_s !== null &&
                  ` · ${formatGpuHours(line.at_risk_mgpu_s)} ${deviceTime(line.device, "h")} at risk`}
              </div>
            </>
          ),
        },
        {
          header: DEVICE_HEADS[head],
          isRight: true,
          only: "wide",
          cell: (line) => countUnder(head, line.mgpu, line.device),
        },
        {
          header: <>{deviceTime(head, "hours")} at risk</>,
          isRight: true,
          only: "wide",
          cell: (line) =>
            line.at_risk_mgpu_s === null ? (
              <span className="faint">–</span>
            ) : (
              hoursUnder(head, line.at_risk_mgpu_s, line.device)
            ),
        },
      ]}
    />
  );
}

/** For whom and why a job gives back; from whom GPUs come; what of a start is borrowed. */
function OtherSide({ line }: { line: DecisionLine }) {
  if (line.beneficiary !== null) {
    const isForeign = line.beneficiary.team === null;
    return (
      <>
        for {isForeign ? "a job of another organization" : <JobName job={line.beneficiary} />}
        {line.beneficiary.id !== null && ` of ${line.beneficiary.team ?? ""}`}
        {line.right !== null && `: ${rightWords(line.right, line.device)}`}
      </>
    );
  }
  return <>{partWords(line)}</>;
}
