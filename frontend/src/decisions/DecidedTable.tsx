import type { DecisionLine } from "../api/types";
import { Time } from "../ui/Time";
import { formatGpuCount, formatGpuHours, formatGpus } from "../ui/units";
import { JobName } from "./DecisionList";
import { kindTone, kindWords, partWords, rightWords } from "./words";

/** What was decided about jobs, a row each: whom it was for or from, and what work was at risk. */
export function DecidedTable({ lines }: { lines: readonly DecisionLine[] }) {
  return (
    <table>
      <thead>
        <tr>
          <th scope="col">Job</th>
          <th scope="col">Decided</th>
          <th scope="col" className="n hide">
            GPUs
          </th>
          <th scope="col" className="n hide">
            GPU-hours at risk
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
              <span className={`pill ${kindTone(line.decision)}`}>{kindWords(line.decision)}</span>
              <div className="small faint">
                <Time at={line.decided_at} />
              </div>
              <div className="only-phone small dim">
                {formatGpuCount(line.mgpu)}
                {line.at_risk_mgpu_s !== null && ` · ${formatGpuHours(line.at_risk_mgpu_s)} GPU-h at risk`}
              </div>
            </td>
            <td className="n hide">{formatGpus(line.mgpu)}</td>
            <td className="n hide">
              {line.at_risk_mgpu_s === null ? <span className="faint">–</span> : formatGpuHours(line.at_risk_mgpu_s)}
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
        {line.right !== null && `: ${rightWords(line.right)}`}
      </>
    );
  }
  return <>{partWords(line)}</>;
}
