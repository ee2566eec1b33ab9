import type { UseHistory } from "../api/types";
import { Card } from "../ui/Card";
import { DataTable } from "../ui/DataTable";
import { Empty } from "../ui/states";
import { deviceTime, formatGpuHours } from "../ui/units";
import { CsvLink } from "./CsvLink";
import { levelsOf } from "./levels";
import type { Asked } from "./queries";

const OUTSIDE = "(outside)";
const ROWS_MAX = 20;

/** The last part of a path; names in brackets stay. */
function shortOf(path: string): string {
  return path === OUTSIDE ? "outside" : path === "(reserve)" ? "reserve" : path.slice(path.lastIndexOf("/") + 1);
}

/** Borrowing of children from each other and from outside in all, in milli-GPU-seconds. */
export function exchangedIn({ pairs }: UseHistory): { inside: number; from: number; to: number } {
  const sum = (wanted: (borrower: string, lender: string) => boolean) =>
    pairs.reduce((total, { borrower, lender, mgpu_s }) => (wanted(borrower, lender) ? total + mgpu_s : total), 0);
  return {
    inside: sum((borrower, lender) => borrower !== OUTSIDE && lender !== OUTSIDE),
    from: sum((borrower, lender) => borrower !== OUTSIDE && lender === OUTSIDE),
    to: sum((borrower) => borrower === OUTSIDE),
  };
}

/** Borrowing by lender: the largest pairs, and sums that must equal those of the charts. */
export function PairsCard({ history, asked }: { history: UseHistory; asked: Asked }) {
  const hours = deviceTime(history.device, "h");
  const { inside, from, to } = exchangedIn(history);
  const above = history.children.reduce((sum, child) => sum + levelsOf(child.sums).above, 0);
  const expected = above + history.series.sums.lent_mgpu_s;
  const most = history.pairs[0]?.mgpu_s ?? 1;
  if (history.children.length === 0) return null;
  return (
    <Card label="Borrowing by lender" tabIndex={0}>
      <div className="spread">
        <h2>Borrowing by lender</h2>
        <CsvLink asked={asked} table="pairs" />
      </div>
      <p className="small dim">
        Use above a guarantee, and whose idle guarantee made it possible. The reserve is what the node gave to no child.
      </p>
      {history.pairs.length === 0 ? (
        <Empty>Nobody borrowed in this period.</Empty>
      ) : (
        <>
          <DataTable
            label="Borrowing by lender"
            rows={history.pairs}
            rowKey={({ borrower, lender }) => `${borrower} ${lender}`}
            limit={ROWS_MAX}
            columns={[
              { header: "Borrower", isHeading: true, className: "breaks", title: ({ borrower }) => borrower, cell: ({ borrower }) => shortOf(borrower) },
              { header: "Lender", className: "breaks", title: ({ lender }) => lender, cell: ({ lender }) => shortOf(lender) },
              {
                header: <span className="visually-hidden">Share of the largest</span>,
                only: "wide",
                className: "pair-bar",
                cell: ({ mgpu_s }) => (
                  <span className="bar" aria-hidden="true">
                    <i className="b" style={{ left: 0, width: `${(100 * mgpu_s) / most}%` }} />
                  </span>
                ),
              },
              { header: hours, isRight: true, cell: ({ mgpu_s }) => formatGpuHours(mgpu_s) },
            ]}
          />
          {history.pairs.length > ROWS_MAX && (
            <p className="small dim">{history.pairs.length - ROWS_MAX} smaller pairs are counted in the sum below.</p>
          )}
          <p className="small">
            Inside {formatGpuHours(inside)} + from outside {formatGpuHours(from)} + to outside {formatGpuHours(to)} ={" "}
            {formatGpuHours(expected)} {hours}{" "}
            {inside + from + to === expected ? <span className="good-text">✓</span> : <strong>▲ does not add up</strong>}
          </p>
        </>
      )}
    </Card>
  );
}
