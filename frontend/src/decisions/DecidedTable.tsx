import type { DecisionLine } from "../api/types";
import { Time } from "../ui/Time";
import { countUnder, DEVICE_HEADS, deviceTime, formatGpuCount, formatGpuHours, headOf, hoursUnder } from "../ui/units";
import { JobName } from "./DecisionList";
import { kindTone, kindWords, partWords, rightWords } from "./words";

/** What was decided about jobs, a row each: whom it was for or from, and what work was at risk. */
export function DecidedTable({ lines }: { lines: readonly DecisionLine[] }) {
  const head = headOf(lines);
  return (
    <table>
      <thead>
        <tr>
          <th scope="col">Job</th>
          <th scope="col">Decided</th>
          <th scope="col" className="n hide">
            {DEVICE_HEADS[head]}
          </th>
          <th scope="col" className="n hide">
            {deviceTime(head, "hours")} at risk
          </th>
        </tr>
      </thead>
      <tbody>
        {lines.map((line) => (
          <tr key={line.id}>
            <th scope="row" className="wraps">
              <JobName job={line.job} />
              <div className="small faint">{line.job.team}</div>
              <div className="small dim">
                <OtherSide line={line} />
              </div>
            </th>
            <td>
              <span className={`pill ${kindTone(line.decision)}`}>{kindWords(line.decision, line.device)}</span>
              <div className="small faint">
                <Time at={line.decided_at} />
              </div>
              <div className="only-phone small dim">
                {formatGpuCount(line.mgpu, line.device)}
                {line.at_risk_mgpu_s !== null && ` · ${formatGpuHours(line.at_risk_mgpu_s)} ${deviceTime(line.device, "h")} at risk`}
              </div>
            </td>
            <td className="n hide">{countUnder(head, line.mgpu, line.device)}</td>
            <td className="n hide">
              {line.at_risk_mgpu_s === null ? <span className="faint">–</span> : hoursUnder(head, line.at_risk_mgpu_s, line.device)}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
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
