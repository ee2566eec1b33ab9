import type { JobPlan } from "../api/types";
import { Fact } from "../ui/Facts";
import { leftAfter } from "./amounts";
import "./budgets.css";

/** The rest of each budget after a job or the tasks of an array: a line of facts each. */
export function BudgetsAfter({
  budgets,
  tasks = 1,
  hasTimeLimit,
}: {
  budgets: JobPlan["budgets"];
  tasks?: number;
  hasTimeLimit: boolean;
}) {
  const work = tasks > 1 ? "all its tasks" : "this job";
  const until = hasTimeLimit ? "its time limit" : "the end of the period";
  return budgets.map((budget) => (
    <Fact key={budget.id} name="Budget">
      <span className="plan-budget">{budget.name}</span>:{" "}
      <span className={budget.left_after < 0 ? "bad-text" : undefined}>
        {leftAfter(budget)} left after {work}, at {until}
      </span>
    </Fact>
  ));
}
