import type { Pool, TeamCredits } from "../api/types";
import { Card } from "../ui/Card";
import { DataTable } from "../ui/DataTable";
import { DEVICE_WORDS, formatRatio } from "../ui/units";

const SPARE_COUNTS = [8, 40, 100];
const DAY_S = 86_400n;

/** How long a balance pays for borrowing, until it is 0 and until it is at the floor. */
export function BuysCard({ mine, pool }: { mine: TeamCredits; pool: Pool }) {
  const words = DEVICE_WORDS[pool.device];
  const isAtFloor = mine.balance_ugpu_s <= mine.floor_ugpu_s;
  return (
    <Card label="What the balance buys" tabIndex={0}>
      <h2>What the balance buys</h2>
      {isAtFloor ? (
        <p>The balance is at the floor, so borrowing is unpaid until the team earns credits.</p>
      ) : (
        <DataTable
          className="flush"
          rows={SPARE_COUNTS.map((count) => ({ count }))}
          rowKey={({ count }) => count}
          columns={[
            { header: `Spare ${words}`, isHeading: true, cell: ({ count }) => `${count} spare ${words} for` },
            { header: "Until 0", isRight: true, cell: ({ count }) => lasting(mine.balance_ugpu_s, count, pool.weight) },
            {
              header: "Until the floor",
              isRight: true,
              cell: ({ count }) => lasting(mine.balance_ugpu_s - mine.floor_ugpu_s, count, pool.weight),
            },
          ]}
        />
      )}
      <p className="small dim more">
        Without new earnings and expiry. Borrowed {words} may be reclaimed. At the floor, borrowing is unpaid and reclaimed
        first.
      </p>
    </Card>
  );
}

/** How many days an amount pays for so many borrowed devices at once. */
export function lasting(ugpuS: number, count: number, weight: number): string {
  if (ugpuS <= 0) return "–";
  return `${formatRatio(ugpuS, BigInt(count) * 1000n * BigInt(weight) * DAY_S, 1, true)} days`;
}
