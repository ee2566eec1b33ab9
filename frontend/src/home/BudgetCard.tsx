import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";

import type { Budget, Session } from "../api/types";
import { formatAmount, formatWithUnit, POLICY_WORDS, windowText } from "../budgets/amounts";
import { BudgetCurve } from "../budgets/BudgetCurve";
import { BudgetUse, Left } from "../budgets/BudgetUse";
import { dayName } from "../budgets/curve";
import { budgetQuery, budgetsQuery } from "../budgets/queries";
import { runsOutAtMs } from "../budgets/runsOut";
import { AskLink } from "../requests/AskLink";
import { isWithin } from "../session/access";
import { Card } from "../ui/Card";
import { Fact, Facts } from "../ui/Facts";
import { Time } from "../ui/Time";
import { formatDuration, formatShare } from "../ui/units";

/** The budget of my teams that is used up the most. Nothing where they have none. */
export function BudgetCard({ session, scope }: { session: Session; scope: string | undefined }) {
  const budgets = useInfiniteQuery(budgetsQuery(scope));
  const mine = session.grants.map((grant) => grant.node_path ?? "");
  const found = (budgets.data?.pages ?? [])
    .flatMap(({ items }) => items)
    .filter(({ node, user }) => user === null && mine.some((path) => isWithin(node, path)))
    .sort((a, b) => b.state.used / b.limit - a.state.used / a.limit);
  const [budget, ...others] = found;
  const detail = useQuery({ ...budgetQuery(budget?.id ?? ""), enabled: budget !== undefined });
  if (budget === undefined) return null;
  // The last day that is whole.
  const lastWhole = detail.data?.days.at(-2);
  const { state } = budget;
  return (
    <Card label="Budget" tone={state.left <= 0 ? "bad" : undefined}>
      <div className="spread">
        <h2>Budget · {budget.name}</h2>
        <span className="small faint">per {windowText(budget)}</span>
      </div>
      <p className="sentence">
        <Outlook budget={budget} />
      </p>
      <BudgetUse budget={budget} />
      <BudgetCurve budget={budget} />
      <Facts label="Budget">
        <Fact name="Consumed">
          {formatWithUnit(state.used, budget)} · {formatShare(state.used, budget.limit)}
        </Fact>
        <Fact name="Left">
          <Left budget={budget} />
        </Fact>
        {lastWhole !== undefined && <Fact name={`Used on ${dayName(lastWhole.day)}`}>{formatAmount(lastWhole.used, budget)}</Fact>}
        {state.forecast !== null && <Fact name={`Forecast for the ${windowText(budget)}`}>{formatAmount(state.forecast, budget)}</Fact>}
        <Fact name="At 100 %">{POLICY_WORDS[budget.policy]}</Fact>
      </Facts>
      <div className="spread more">
        {budget.can_edit ? <span /> : <AskLink asked={{ ask: "budget", target: budget.id }}>Ask for budget…</AskLink>}
        <Link to="/budgets">{others.length > 0 ? `All ${String(found.length)} budgets` : "Budgets"}</Link>
      </div>
    </Card>
  );
}

/** When the budget runs out, or that it lasts. */
function Outlook({ budget }: { budget: Budget }) {
  const { state } = budget;
  const endMs = Date.parse(state.window_end);
  if (state.left <= 0) {
    return (
      <>
        The budget is <b>used up</b>. There is room again by <Time at={state.room_at} show="clock" /> at the latest.
      </>
    );
  }
  const outMs = runsOutAtMs(budget);
  if (outMs === null) return <>{state.forecast === null ? "There is no forecast yet." : `The budget lasts until the ${windowText(budget)} ends.`}</>;
  return (
    <>
      The budget runs out{" "}
      <b>
        <Time at={new Date(outMs).toISOString()} show="clock" />
      </b>
      : {formatDuration(Math.floor((endMs - outMs) / 3_600_000) * 3_600)} before the {windowText(budget)} ends.
    </>
  );
}
