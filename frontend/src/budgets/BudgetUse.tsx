import type { Budget } from "../api/types";
import { Time } from "../ui/Time";
import { formatAmount, formatWithUnit, partsOf } from "./amounts";
import "./budgets.css";

/** What is left, and where that is nothing, when there is room again. */
export function Left({ budget }: { budget: Budget }) {
  const { left, room_at: roomAt } = budget.state;
  return (
    <>
      <span className={left <= 0 ? "bad-text" : undefined}>{formatAmount(left, budget)}</span>
      {left <= 0 && (
        <span className="small dim budget-owner">
          room by <Time at={roomAt} show="exact" />
        </span>
      )}
    </>
  );
}

/** Used and on hold against the limit. Its text says the same numbers; on a phone, what is left, too. */
export function BudgetUse({ budget }: { budget: Budget }) {
  const parts = partsOf(budget);
  const { used, on_hold: onHold } = budget.state;
  const text = `${formatAmount(used, budget)} used, ${formatAmount(onHold, budget)} on hold of ${formatWithUnit(budget.limit, budget)}`;
  return (
    <span className="budget-cell">
      <span className="budget-bar" role="img" aria-label={text}>
        <i className="used" style={{ width: `${parts.used}%` }} />
        <i className="on-hold" style={{ left: `${parts.used}%`, width: `${parts.onHold}%` }} />
        {parts.forecast && (
          <u style={{ left: `${parts.forecast.from}%`, width: `${Math.max(0.5, parts.forecast.to - parts.forecast.from)}%` }} />
        )}
        <b style={{ left: `${parts.limit}%` }} />
      </span>
      <span className="small dim" aria-hidden>
        {formatAmount(used, budget)} used · {formatAmount(onHold, budget)} on hold
      </span>
      <span className="small budget-left">
        <Left budget={budget} /> left of {formatWithUnit(budget.limit, budget)}
      </span>
    </span>
  );
}
