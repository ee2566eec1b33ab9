import { barPercent } from "../quotas/use";
import { formatGpus } from "../ui/units";
import type { MemberUse } from "./use";
import "../quotas/quota-bar.css";

/** The GPUs of a member: solid inside the guarantee, hatched where borrowed, a dotted tick at the cap. */
export function MemberBar({ use, scaleMgpu }: { use: MemberUse; scaleMgpu: number }) {
  const { guaranteedMgpu, borrowedMgpu, capMgpu } = use;
  const words = `${formatGpus(guaranteedMgpu)} guaranteed, ${formatGpus(borrowedMgpu)} borrowed, ${
    capMgpu === null ? "no cap" : `cap ${formatGpus(capMgpu)}`
  }`;
  return (
    <div className="bar member-bar" role="img" aria-label={words} title={words}>
      <i className="g" style={{ left: 0, width: barPercent(guaranteedMgpu, scaleMgpu) }} />
      <i
        className="b"
        style={{ left: barPercent(guaranteedMgpu, scaleMgpu), width: barPercent(borrowedMgpu, scaleMgpu) }}
      />
      {capMgpu !== null && capMgpu <= scaleMgpu && <i className="cap" style={{ left: barPercent(capMgpu, scaleMgpu) }} />}
    </div>
  );
}

const LEGEND = [
  ["g", "guaranteed, in use"],
  ["b", "borrowed: may be reclaimed"],
  ["cap", "cap of the member"],
] as const;

export function MemberLegend() {
  return (
    <ul className="key" aria-label="Legend">
      {LEGEND.map(([className, meaning]) => (
        <li key={className}>
          <span className="bar" aria-hidden="true">
            <i className={className} />
          </span>
          {meaning}
        </li>
      ))}
    </ul>
  );
}
