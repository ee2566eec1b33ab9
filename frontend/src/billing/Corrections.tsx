import type { GroupedReport } from "./groupQueries";
import { formatPrice } from "../prices/amounts";
import { Card } from "../ui/Card";
import { DataTable } from "../ui/DataTable";
import { Time } from "../ui/Time";

/** Prices of the period that were added after they had started to apply: which, when and by whom. */
export function Corrections({ report }: { report: GroupedReport }) {
  if (report.corrections.length === 0) return null;
  return (
    <Card label="Priced after the fact" tone="note" tabIndex={0}>
      <h2>Priced after the fact</h2>
      <p className="sub">These prices were added where there was none, for usage that had already happened.</p>
      <DataTable
        rows={report.corrections}
        rowKey={(line) => line.id}
        columns={[
          {
            header: "Price",
            isHeading: true,
            cell: (line) => (
              <>
                {line.pool} <span className="dim">{line.usage_class}</span> {formatPrice(line.price_nano, line.currency)}
                <div className="only-phone small faint">added by {line.added_by}</div>
              </>
            ),
          },
          { header: "From", cell: (line) => <Time at={line.start} show="exact" /> },
          { header: "Added", only: "wide", cell: (line) => line.added_at && <Time at={line.added_at} show="exact" /> },
          { header: "By", only: "wide", cell: (line) => line.added_by },
        ]}
      />
    </Card>
  );
}
