import { useQuery } from "@tanstack/react-query";

import { monthLabel } from "../credits/months";
import { Card } from "../ui/Card";
import { CliLine } from "../ui/CliLine";
import { DataTable } from "../ui/DataTable";
import { Empty, Lines, QueryView } from "../ui/states";
import { Time } from "../ui/Time";
import { formatCount } from "../ui/units";
import { chargeAuditsQuery, type ChargeAudit } from "./chargeAuditQueries";

/** The latest audit of a month's charges, of each organization. */
export function ChargeAudits({ month }: { month: string }) {
  const audits = useQuery(chargeAuditsQuery(month));
  return (
    <Card label="Audit of the charges">
      <h2>Audit of the charges</h2>
      <p className="sub">Each night another program computes use and cost again, from raw use and prices.</p>
      <QueryView query={audits} loading={<Lines count={2} label="Loading the audits" />}>
        {(items) =>
          items.length === 0 ? (
            <Empty>{monthLabel(month)} was not audited yet.</Empty>
          ) : (
            items.map((audit) => <Audit key={audit.id} audit={audit} isNamed={items.length > 1} />)
          )
        }
      </QueryView>
      <CliLine command={`tidegate export audits --month ${month}`} />
    </Card>
  );
}

function Audit({ audit, isNamed }: { audit: ChargeAudit; isNamed: boolean }) {
  const { difference_count, line_count } = audit;
  return (
    <>
      <p className="audit-verdict">
        {isNamed && <strong>{audit.organization} </strong>}
        <span className={`pill ${difference_count === 0 ? "run" : "bad"}`}>
          {difference_count === 0 ? "agrees" : "differs"}
        </span>{" "}
        {difference_count === 0
          ? `${formatCount(line_count)} of ${formatCount(line_count)} sums agree to the unit.`
          : `${formatCount(difference_count)} of ${formatCount(line_count)} sums differ. Do not send this month's bill.`}{" "}
        <span className="faint">
          Audited <Time at={audit.audited_at} />
        </span>
      </p>
      {difference_count > 0 && (
        <DataTable
          label={`Differences of ${audit.organization}`}
          rows={audit.differences}
          rowKey={({ pool, usage_class }) => `${pool} ${usage_class}`}
          columns={[
            { header: "Pool", isHeading: true, cell: ({ pool }) => pool },
            { header: "Class", cell: ({ usage_class }) => usage_class },
            { header: "Charged mGPU-s", isRight: true, only: "wide", cell: (line) => formatCount(line.charged_mgpu_s) },
            { header: "Audited mGPU-s", isRight: true, only: "wide", cell: (line) => formatCount(line.audited_mgpu_s) },
            { header: "Charged nano", isRight: true, only: "wide", cell: (line) => formatCount(line.charged_nano) },
            { header: "Audited nano", isRight: true, only: "wide", cell: (line) => formatCount(line.audited_nano) },
            {
              header: "Too much",
              isRight: true,
              cell: (line) => formatCount(line.charged_nano - line.audited_nano),
            },
          ]}
        />
      )}
    </>
  );
}
