import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";

import { Card } from "../ui/Card";
import { formatCost } from "../ui/units";
import { closedMonthsQuery, type MonthCheck, type Narrowed } from "./groupQueries";

/** Closed months of the period beside what was billed: green, or red with the difference and what to do. */
export function ClosedMonths({ asked }: { asked: Pick<Narrowed, "start" | "end"> }) {
  const months = useQuery(closedMonthsQuery({ start: asked.start, end: asked.end }));
  const items = months.data?.months ?? [];
  if (items.length === 0) return null;
  const hasSeveral = new Set(items.map(({ organization }) => organization)).size > 1;
  return (
    <Card label="Closed months">
      <h2>{items.every(({ is_as_billed: isBilled }) => isBilled) ? "Closed, as billed" : "Closed, and changed since"}</h2>
      <ul className="month-checks">
        {items.map((item) => (
          <li key={`${item.organization} ${item.month}`}>
            <Link to="/periods">{hasSeveral ? `${item.month} of ${item.organization}` : item.month}</Link>
            <Verdict item={item} />
          </li>
        ))}
      </ul>
    </Card>
  );
}

function Verdict({ item }: { item: MonthCheck }) {
  const cost = (nano: number) => formatCost(nano, item.currency || null);
  const charges = item.corrections_nano === 0 ? "charges" : `charges ${cost(item.billed_nano)} and corrections ${cost(item.corrections_nano)}`;
  const billed = item.billed_nano + item.corrections_nano;
  return (
    <>
      <span className={item.is_as_billed ? undefined : "bad-text"}>
        {" "}
        report {cost(item.report_nano)} {item.is_as_billed ? "=" : "≠"} {item.corrections_nano === 0 ? `${charges} ${cost(billed)}` : charges}{" "}
        <Mark isGood={item.is_as_billed} words={item.is_as_billed ? "equal" : `differs by ${cost(item.difference_nano)}`} />
      </span>
      {item.statements_nano === null || item.ledger_nano === null ? (
        <span className="faint"> · no statements yet</span>
      ) : (
        <span className={item.is_posted ? undefined : "bad-text"}>
          {" "}
          · statements {cost(item.statements_nano)} {item.is_posted ? "=" : "≠"} ledger {cost(item.ledger_nano)}{" "}
          <Mark isGood={item.is_posted} words={item.is_posted ? "equal" : "differ"} />
        </span>
      )}
      {item.advice !== "" && (
        <p className="check bad-text" role="alert">
          {item.advice}
        </p>
      )}
    </>
  );
}

function Mark({ isGood, words }: { isGood: boolean; words: string }) {
  return (
    <b className={isGood ? "good-text" : "bad-text"}>
      <span aria-hidden="true">{isGood ? "✓" : "✕"}</span> {words}
    </b>
  );
}
