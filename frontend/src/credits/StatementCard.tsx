import { Button } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";

import type { CreditHistory, CreditLine, CreditStatement } from "../api/types";
import { Card } from "../ui/Card";
import { DataTable } from "../ui/DataTable";
import { Empty } from "../ui/states";
import { deviceTime, DEVICE_WORDS, type Device } from "../ui/units";
import { checkStatement, entryOf, formatHours, formatSignedHours, totalsOf } from "./amounts";
import { dayLabel, monthLabel } from "./months";
import { Check } from "./OrderCard";
import { statementCsv } from "./queries";

type Borrowing = CreditStatement["borrowing"][number];

/** A line of the table: of the statement, or what is on hold now. */
interface Row {
  key: string;
  day: string;
  entry: ReactNode;
  title?: string | undefined;
  amount: string;
  balance: ReactNode;
  isHeld?: boolean;
}

/** All lines of a month, newest first, and that they lead from the opening balance to the closing one. */
export function StatementCard({
  statement,
  history,
  device,
  month,
}: {
  statement: CreditStatement;
  /** Of the same month; undefined until it is loaded. */
  history: CreditHistory | undefined;
  device: Device;
  month: string;
}) {
  const hours = deviceTime(device, "h");
  const heading = `Statement · ${monthLabel(month)}`;
  const rows = [...heldRows(statement, history), ...linesOf(statement, device)];
  return (
    <Card label={heading} className="credit-statement" tabIndex={0}>
      <div className="spread">
        <h2>{heading}</h2>
        <span className="inline">
          <span className="small faint">newest first · {hours}</span>
          <Button component="a" href={statementCsv(statement.team, statement.pool, month)} download variant="default" size="xs">
            CSV
          </Button>
        </span>
      </div>
      {rows.length === 0 ? (
        <Empty>
          No credits moved in {monthLabel(month)}. The balance was {formatHours(statement.closing_ugpu_s)} {hours}.
        </Empty>
      ) : (
        <>
          <DataTable
            rows={rows}
            rowKey={({ key }) => key}
            rowClass={({ isHeld }) => (isHeld ? "held" : undefined)}
            columns={[
              { header: "Day", className: "day", cell: ({ day }) => dayLabel(day), total: () => dayLabel(`${month}-01`) },
              { header: "Entry", isHeading: true, title: ({ title }) => title, cell: ({ entry }) => entry, total: () => "opening balance" },
              { header: "Amount", isRight: true, cell: ({ amount }) => amount },
              {
                header: "Balance",
                isRight: true,
                cell: ({ balance }) => balance,
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

/** The lines, newest first. The jobs of a day stand at the first of its payments that is shown. */
function linesOf({ lines, borrowing }: CreditStatement, device: Device): Row[] {
  const named = new Set<string>();
  return lines.toReversed().map((line) => {
    const isPayment = line.amount_ugpu_s < 0 && ["lent", "common", "above_cap"].includes(line.kind);
    const jobs = isPayment && !named.has(line.day) ? borrowing.filter(({ day }) => day === line.day) : [];
    if (isPayment) named.add(line.day);
    return {
      key: `${line.day} ${line.kind} ${line.other} ${line.reason} ${Math.sign(line.amount_ugpu_s)}`,
      day: line.day,
      title: line.other || undefined,
      entry: <Entry line={line} jobs={jobs} device={device} />,
      amount: formatSignedHours(line.amount_ugpu_s, true),
      balance: formatHours(line.balance_ugpu_s, true),
    };
  });
}

function Entry({ line, jobs, device }: { line: CreditLine; jobs: readonly Borrowing[]; device: Device }) {
  return (
    <>
      {entryOf(line, DEVICE_WORDS[device])}
      {line.other !== "" && <div className="small faint hide">{line.other}</div>}
      {line.reason !== "" && <div className="small faint">{line.reason}</div>}
      {line.expires_on !== null && <div className="small faint">expires after {dayLabel(line.expires_on)} unless spent</div>}
      {jobs.length > 0 && (
        <div className="small dim">
          <Jobs jobs={jobs} />
        </div>
      )}
    </>
  );
}

/** Attempts with what they borrowed, and how many more there were. */
function Jobs({ jobs }: { jobs: readonly Borrowing[] }) {
  const more = (jobs[0]?.attempts ?? 0) - jobs.length;
  return (
    <>
      borrowed by{" "}
      {jobs.map(({ job, job_name: name, attempt, amount_ugpu_s: amount }, place) => (
        <span key={`${job} ${attempt}`}>
          {place > 0 && ", "}
          <Link to="/jobs/$jobId" params={{ jobId: job }}>
            {name}
          </Link>
          {attempt > 1 && ` (attempt ${attempt})`} {formatHours(amount)}
        </span>
      ))}
      {more > 0 && ` and ${more} more`}
    </>
  );
}

/** What running jobs and transfers keep from being spent, in the month that is not over. */
function heldRows(statement: CreditStatement, history: CreditHistory | undefined): Row[] {
  const until = history?.settled_until;
  if (!history || !until || until <= statement.start || until > statement.end) return [];
  const { balance_ugpu_s: balance, held_ugpu_s: held, pending_ugpu_s: pending, borrowing, days } = history;
  const row = (key: string, entry: ReactNode, amount: number, available: number): Row => ({
    key,
    day: days.at(-1)?.day ?? statement.start.slice(0, 10),
    entry,
    amount: `(${formatHours(amount, true)})`,
    balance: (
      <>
        {formatHours(available, true)}
        <div className="small faint">available</div>
      </>
    ),
    isHeld: true,
  });
  const forJobs = (
    <>
      on hold for running jobs
      <div className="small dim">
        An hour of the GPUs that they borrow, renewed while they run
        {borrowing.length > 0 && (
          <>
            : <Jobs jobs={borrowing} />
          </>
        )}
      </div>
    </>
  );
  return [
    ...(held > 0 ? [row("held", forJobs, held, balance - pending - held)] : []),
    ...(pending > 0 ? [row("pending", "on hold for transfers that wait for approval", pending, balance - pending)] : []),
  ];
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
