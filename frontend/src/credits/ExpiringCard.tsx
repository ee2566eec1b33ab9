import type { CreditStatement } from "../api/types";
import { Card } from "../ui/Card";
import { DataTable } from "../ui/DataTable";
import { Time } from "../ui/Time";
import { deviceTime, type Device } from "../ui/units";
import { formatHours } from "./amounts";
import { dayLabel, monthLabel } from "./months";

const NOTICES_MAX = 5;

type Expiring = CreditStatement["expiring"];

/** What a team earned and has not spent, by the month in which it expires. */
export function ExpiringCard({
  expiring,
  notices,
  device,
}: {
  expiring: Expiring;
  notices: CreditStatement["notices"];
  device: Device;
}) {
  const hours = deviceTime(device, "h");
  const months = byMonth(expiring);
  const [next] = months;
  return (
    <Card label="Expiring credits" tabIndex={0}>
      <h2>Expiring credits</h2>
      {next === undefined ? (
        <p className="dim">No credits expire: the team has no unspent earnings.</p>
      ) : (
        <>
          <p>
            {formatHours(next.amount)} {hours} expire by {dayLabel(next.last)}. Borrowing uses the oldest credits first.
          </p>
          <DataTable
            className="flush"
            rows={months}
            rowKey={({ month }) => month}
            columns={[
              { header: "Month", isHeading: true, cell: ({ month }) => monthLabel(month), total: () => "Total" },
              {
                header: "Expire after",
                cell: ({ month, first, last }) => (
                  <span className={month === next.month ? "pill borrow" : undefined}>
                    {first === last ? dayLabel(first) : `${dayLabel(first)} – ${dayLabel(last)}`}
                  </span>
                ),
              },
              {
                header: hours,
                isRight: true,
                cell: ({ amount }) => formatHours(amount, true),
                total: () => formatHours(expiring.reduce((sum, lot) => sum + lot.amount_ugpu_s, 0), true),
              },
            ]}
            totals={[null]}
          />
        </>
      )}
      {notices.length > 0 && (
        <>
          <h3 className="more">Notices</h3>
          <ul className="small dim">
            {notices.slice(0, NOTICES_MAX).map(({ last_day, amount_ugpu_s, days, given_at }) => (
              <li key={`${last_day} ${days}`}>
                <Time at={given_at} />: {formatHours(amount_ugpu_s)} {hours} expire after {dayLabel(last_day)}, in{" "}
                {days === 1 ? "1 day" : `${days} days`} or less
              </li>
            ))}
          </ul>
        </>
      )}
    </Card>
  );
}

/** Lots come in their order, so that those of one month stand together. */
export function byMonth(expiring: Expiring) {
  const months: { month: string; first: string; last: string; amount: number }[] = [];
  for (const { last_day: day, amount_ugpu_s: amount } of expiring) {
    const latest = months.at(-1);
    if (latest?.month === day.slice(0, 7)) {
      latest.last = day;
      latest.amount += amount;
    } else {
      months.push({ month: day.slice(0, 7), first: day, last: day, amount });
    }
  }
  return months;
}
