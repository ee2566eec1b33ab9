import type { CreditStatement } from "../api/types";
import { Card } from "../ui/Card";
import { DataTable } from "../ui/DataTable";
import { Time } from "../ui/Time";
import { deviceTime, type Device } from "../ui/units";
import { formatHours, slugOf } from "./amounts";
import { dayLabel, monthLabel } from "./months";

const NOTICES_MAX = 5;
const NAMED_MAX = 2;

type Expiring = CreditStatement["expiring"];

/** What a team earned and has not spent, by the month in which it was earned: by lending to whom, and when it expires. */
export function ExpiringCard({
  expiring,
  earnedIn,
  notices,
  device,
}: {
  expiring: Expiring;
  earnedIn: CreditStatement["earned_in"];
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
              {
                header: "Earned in",
                isHeading: true,
                cell: ({ month }) => (
                  <>
                    {monthLabel(month)}
                    <div className="small faint">{earnedBy(earnedIn, month)}</div>
                  </>
                ),
                total: () => "Total",
              },
              {
                header: "Expires after",
                cell: ({ month, first, last }) => (
                  <span className={month === next.month ? "pill borrow" : undefined}>
                    {first === last ? dayLabel(first) : `${dayLabel(first)} – ${dayLabel(last)}`}
                  </span>
                ),
              },
              {
                header: `Left, ${hours}`,
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

/** "by lending to inference and 2 more", the largest first; dividends are from the common account. */
export function earnedBy(earnedIn: CreditStatement["earned_in"], month: string): string {
  const earned = earnedIn.find((one) => one.month.startsWith(month))?.earned ?? [];
  const teams = earned.filter(({ other }) => other !== "").map(({ other }) => slugOf(other));
  const more = teams.length - NAMED_MAX;
  const named = [...teams.slice(0, NAMED_MAX), ...(more > 0 ? [`${more} more`] : [])];
  const parts = [
    ...(named.length > 0 ? [`by lending to ${new Intl.ListFormat("en-GB").format(named)}`] : []),
    ...(teams.length < earned.length ? ["dividend"] : []),
  ];
  return parts.join(", ") || "by another team, which transferred them";
}

/** Lots come in their order, so that those of one month stand together. */
export function byMonth(expiring: Expiring) {
  const months: { month: string; first: string; last: string; amount: number }[] = [];
  for (const { earned_in: earned, last_day: day, amount_ugpu_s: amount } of expiring) {
    const latest = months.at(-1);
    if (latest?.month === earned.slice(0, 7)) {
      latest.last = day;
      latest.amount += amount;
    } else {
      months.push({ month: earned.slice(0, 7), first: day, last: day, amount });
    }
  }
  return months;
}
