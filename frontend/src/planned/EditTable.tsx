import type { PlannedChange, PlannedEdit } from "../api/types";
import { describeChange, describeValue } from "../quotas/changes";
import { DataTable } from "../ui/DataTable";
import { EDIT_FIELDS, wasApplied } from "./words";

/** Each figure that it sets: as it was, as it is, and as it would be. */
export function EditTable({ change }: { change: PlannedChange }) {
  const isOver = wasApplied(change);
  const pools = new Set(change.edits.map((edit) => edit.pool));
  return (
    <DataTable
      className="edits"
      rows={change.edits.flatMap((edit) =>
        EDIT_FIELDS.filter(([field]) => field in edit.set).map(([field, label], place) => {
          const value = (values: object) => describeValue(field, (values as Record<string, unknown>)[field]);
          return {
            edit,
            field,
            label,
            isFirst: place === 0,
            was: value(edit.before),
            is: value(edit.current),
            set: value(edit.set),
          };
        }),
      )}
      rowKey={({ edit, field }) => `${edit.quota} ${field}`}
      columns={[
        {
          header: "Node",
          isHeading: true,
          cell: ({ edit, label, isFirst }) => (
            <>
              {isFirst && edit.node}
              {isFirst && pools.size > 1 && <span className="faint"> · {edit.pool}</span>}
              {isFirst && edit.is_stale && <div className="small bad-text">▲ changed since</div>}
              <div className="only-phone small faint">{label}</div>
              {!isFirst && <span className="visually-hidden">{edit.node}</span>}
            </>
          ),
        },
        { header: "Figure", only: "wide", cell: ({ label }) => label },
        { header: isOver ? "Before" : "When drafted", isRight: true, className: "dim", cell: ({ was }) => was },
        {
          header: isOver ? "Set" : "Now",
          isRight: true,
          cell: ({ was, is, set }) => (isOver ? set : is === was ? is : <b>{is}</b>),
        },
        { header: isOver ? "Now" : "Would be", isRight: true, cell: ({ is, set }) => (isOver ? is : <b>{set}</b>) },
      ]}
    />
  );
}

/** What became different in the quotas that it changes since it was drafted. */
export function StaleEdits({ change }: { change: PlannedChange }) {
  const stale = change.edits.filter((edit) => edit.is_stale);
  if (stale.length === 0) {
    return <p className="dim">The quotas of this change are unchanged; one above or beside them differs.</p>;
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
