import { barPercent, describeUse, type QuotaUse } from "./use";
import "./quota-bar.css";

/**
 * One node against its guarantee. Solid: in use inside it; hatched: borrowed; dashed: lent;
 * grey: idle; tick: the guarantee; dotted tick: the borrow limit; thin line below: waiting.
 * `scaleMgpu` is the same for all bars of a table.
 */
export function QuotaBar({ use, scaleMgpu }: { use: QuotaUse; scaleMgpu: number }) {
  const part = (className: string, fromMgpu: number, widthMgpu: number) =>
    widthMgpu > 0 && (
      <i
        className={className}
        style={{ left: barPercent(fromMgpu, scaleMgpu), width: barPercent(widthMgpu, scaleMgpu) }}
      />
    );
  const description = describeUse(use);
  return (
    <div className="bar" role="img" aria-label={description} title={description}>
      {part("g", 0, use.solidMgpu)}
      {part("b", use.solidMgpu, use.borrowedMgpu)}
      {part("l", use.inUseMgpu, use.lentMgpu)}
      {part("e", use.inUseMgpu + use.lentMgpu, use.idleMgpu)}
      {part("w", 0, use.waitingMgpu)}
      {use.ceilingMgpu !== null && use.ceilingMgpu <= scaleMgpu && use.ceilingMgpu !== use.guaranteedMgpu && (
        <i className="cap" style={{ left: barPercent(use.ceilingMgpu, scaleMgpu) }} />
      )}
      <i className="tick" style={{ left: barPercent(use.guaranteedMgpu, scaleMgpu) }} />
    </div>
  );
}

const LEGEND = [
  ["g", "guaranteed, in use"],
  ["b", "borrowed: may be reclaimed"],
  ["l", "guaranteed, lent to others"],
  ["e", "guaranteed, idle"],
  ["tick", "guarantee"],
  ["cap", "borrow limit"],
  ["w", "waiting"],
] as const;

/** What each shape of the bars means. */
export function QuotaLegend() {
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
