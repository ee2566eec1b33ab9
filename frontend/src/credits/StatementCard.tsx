import type { CreditLine, CreditStatement } from "../api/types";
import { Card } from "../ui/Card";
import { DataTable } from "../ui/DataTable";
import { Empty } from "../ui/states";
import { deviceTime, DEVICE_WORDS, type Device } from "../ui/units";
import { checkStatement, entryOf, formatHours, formatSignedHours, totalsOf } from "./amounts";
import { dayLabel, monthLabel } from "./months";
import { Check } from "./OrderCard";

/** All lines of a month, newest first, and that they lead from the opening balance to the closing one. */
export function StatementCard({ statement, device, month }: { statement: CreditStatement; device: Device; month: string }) {
  const hours = deviceTime(device, "h");
  const heading = `Statement · ${monthLabel(month)}`;
  const rows = statement.lines.toReversed();
  return (
    <Card label={heading} className="credit-statement" tabIndex={0}>
      <div className="spread">
        <h2>{heading}</h2>
        <span className="small faint">newest first · {hours}</span>
      </div>
      {rows.length === 0 ? (
        <Empty>
          No credits moved in {monthLabel(month)}. The balance was {formatHours(statement.closing_ugpu_s)} {hours}.
        </Empty>
      ) : (
        <>
          <DataTable
            rows={rows}
            rowKey={(line) => `${line.day} ${line.kind} ${line.other} ${line.reason} ${Math.sign(line.amount_ugpu_s)}`}
            columns={[
              { header: "Day", className: "day", cell: (line) => dayLabel(line.day), total: () => dayLabel(`${month}-01`) },
              {
                header: "Entry",
                isHeading: true,
                title: ({ other }) => other || undefined,
                cell: (line: CreditLine) => (
                  <>
                    {entryOf(line, DEVICE_WORDS[device])}
                    {line.other !== "" && <div className="small faint hide">{line.other}</div>}
                    {line.reason !== "" && <div className="small faint">{line.reason}</div>}
                  </>
                ),
                total: () => "opening balance",
              },
              { header: "Amount", isRight: true, cell: (line) => formatSignedHours(line.amount_ugpu_s, true) },
              {
                header: "Balance",
                isRight: true,
                cell: (line) => formatHours(line.balance_ugpu_s, true),
                total: () => formatHours(statement.opening_ugpu_s, true),
              },
            ]}
            totals={[null]}
          />
          <Sum statement={statement} hours={hours} />
        </>
      )}
    </Card>
  );
}

/** The opening balance with the sums of a month, and that they make the closing one. */
function Sum({ statement, hours }: { statement: CreditStatement; hours: string }) {
  const { earned, paid, dividend, expired, received, given, corrected } = totalsOf(statement.lines);
  const parts = [
    [dividend, "+", "dividend"],
    [earned, "+", "earned"],
    [received, "+", "received"],
    [paid, "−", "paid"],
    [given, "−", "transferred"],
    [expired, "−", "expired"],
    [Math.abs(corrected), corrected < 0 ? "−" : "+", "corrected"],
  ] as const;
  return (
    <p className="small dim more">
      opening {formatHours(statement.opening_ugpu_s)}
      {parts.map(([amount, sign, name]) => amount !== 0 && ` ${sign} ${name} ${formatHours(amount)}`)} ={" "}
      <Check check={checkStatement(statement)} equal={`${formatHours(statement.closing_ugpu_s)} ${hours}`} />
    </p>
  );
}
