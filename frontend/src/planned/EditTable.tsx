import type { PlannedChange, PlannedEdit } from "../api/types";
import { describeChange, describeValue } from "../quotas/changes";
import { EDIT_FIELDS, wasApplied } from "./words";

/** Each figure that it sets: as it was, as it is, and as it would be. */
export function EditTable({ change }: { change: PlannedChange }) {
  const isOver = wasApplied(change);
  const pools = new Set(change.edits.map((edit) => edit.pool));
  return (
    <table className="edits">
      <thead>
        <tr>
          <th scope="col">Node</th>
          <th scope="col" className="hide">
            Figure
          </th>
          <th scope="col" className="n">
            {isOver ? "Before" : "When drafted"}
          </th>
          <th scope="col" className="n">
            {isOver ? "Set" : "Now"}
          </th>
          <th scope="col" className="n">
            {isOver ? "Now" : "Would be"}
          </th>
        </tr>
      </thead>
      <tbody>
        {change.edits.flatMap((edit) =>
          EDIT_FIELDS.filter(([field]) => field in edit.set).map(([field, label], place) => {
            const value = (values: object) => describeValue(field, (values as Record<string, unknown>)[field]);
            const [was, is, set] = [value(edit.before), value(edit.current), value(edit.set)];
            return (
              <tr key={`${edit.quota} ${field}`}>
                <th scope="row">
                  {place === 0 && edit.node}
                  {place === 0 && pools.size > 1 && <span className="faint"> · {edit.pool}</span>}
                  {place === 0 && edit.is_stale && <div className="small bad-text">▲ changed since</div>}
                  <div className="only-phone small faint">{label}</div>
                  {place > 0 && <span className="visually-hidden">{edit.node}</span>}
                </th>
                <td className="hide">{label}</td>
                <td className="n dim">{was}</td>
                <td className="n">{isOver ? set : is === was ? is : <b>{is}</b>}</td>
                <td className="n">{isOver ? is : <b>{set}</b>}</td>
              </tr>
            );
          }),
        )}
      </tbody>
    </table>
  );
}

/** What became different in the quotas that it changes since it was drafted. */
export function StaleEdits({ change }: { change: PlannedChange }) {
  const stale = change.edits.filter((edit) => edit.is_stale);
  if (stale.length === 0) {
    return <p className="dim">Nobody changed the quotas that it changes; one above or beside them is another.</p>;
  }
  return (
    <ul>
      {stale.map((edit) => (
        <li key={edit.quota}>
          {edit.node} · {edit.pool}: {describeStale(edit)}
        </li>
      ))}
    </ul>
  );
}

function describeStale(edit: PlannedEdit): string {
  const lines = describeChange(edit.before, edit.current);
  return lines.length > 0 ? lines.join(", ") : "changed and set back";
}
