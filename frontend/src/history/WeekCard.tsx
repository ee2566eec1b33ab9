import type { UseHistory } from "../api/types";
import { Card } from "../ui/Card";
import { DEVICE_WORDS } from "../ui/units";
import { CsvLink } from "./CsvLink";
import type { Asked } from "./queries";

const DAYS = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
const HOURS = Array.from({ length: 24 }, (_, hour) => hour);
/** The most colour of a cell, so that its number stays readable. */
const FULL_PERCENT = 60;

/** Average use by weekday and hour, in percent of the guarantee. */
export function WeekCard({ history, asked }: { history: UseHistory; asked: Asked }) {
  const cells = new Map(history.week.map((cell) => [`${cell.weekday} ${cell.hour}`, cell]));
  return (
    <Card label="Week by hour">
      <div className="spread">
        <h2>Week by hour</h2>
        <CsvLink asked={asked} table="week" />
      </div>
      <p className="small dim">
        Average use in percent of the guarantee, in hours of {history.time_zone}. 100 is all guaranteed{" "}
        {DEVICE_WORDS[history.device]} in use; lighter is less.
      </p>
      <div className="history-table" role="group" aria-label="Week by hour, as a table" tabIndex={0}>
        <table className="week">
          <thead>
            <tr>
              <th scope="col">
                <span className="visually-hidden">Day</span>
              </th>
              {HOURS.map((hour) => (
                <th key={hour} scope="col">
                  {String(hour).padStart(2, "0")}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {DAYS.map((day, weekday) => (
              <tr key={day}>
                <th scope="row">{day}</th>
                {HOURS.map((hour) => {
                  const cell = cells.get(`${weekday} ${hour}`);
                  if (cell === undefined || cell.guarantee_mgpu_s === 0) return <td key={hour}>·</td>;
                  const percent = Math.round((100 * cell.used_mgpu_s) / cell.guarantee_mgpu_s);
                  const colour = (Math.min(100, percent) * FULL_PERCENT) / 100;
                  return (
                    <td key={hour} style={{ background: `color-mix(in srgb, var(--guaranteed) ${colour}%, var(--card))` }}>
                      {percent}
                    </td>
                  );
                })}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Card>
  );
}
