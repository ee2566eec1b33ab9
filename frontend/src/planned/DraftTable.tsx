import { TextInput } from "@mantine/core";
import { useState } from "react";

import type { Quota } from "../api/types";
import { describeValue } from "../quotas/changes";
import "../quotas/quota-table.css";
import { indented, quotaRows } from "../quotas/tree";
import { DEVICE_HEADS, DEVICE_WORDS, formatDifference, formatGpus } from "../ui/units";
import { outlook, readRow, rowFieldsOf, typedAfter, type Outlook, type RowErrors, type TypedFields } from "./draft";

/** More rows than this start closed below the first level. */
const OPEN_ROWS_MAX = 60;

/** The tree of one pool with a field for each guarantee that I may ask to change; limits on demand. */
export function DraftTable({
  quotas,
  rows,
  refusals,
  onChange,
}: {
  quotas: readonly Quota[];
  rows: Readonly<Record<string, TypedFields>>;
  refusals: Readonly<Record<string, RowErrors>>;
  onChange: (quota: string, typed: TypedFields) => void;
}) {
  const [closed, setClosed] = useState<ReadonlySet<string>>(
    () =>
      new Set(
        quotas.length <= OPEN_ROWS_MAX
          ? []
          : quotas.filter((quota) => quota.node.includes("/")).map((quota) => quota.node),
      ),
  );
  const [opened, setOpened] = useState<ReadonlySet<string>>(new Set());
  const flip = (found: ReadonlySet<string>, item: string) => {
    const next = new Set(found);
    if (!next.delete(item)) next.add(item);
    return next;
  };
  const outlooks = outlook(quotas, rows);
  return (
    <table className="draft">
      <thead>
        <tr>
          <th scope="col">Node</th>
          <th scope="col" className="n hide">
            In use
          </th>
          <th scope="col" className="n hide">
            Guaranteed now
          </th>
          <th scope="col">New guarantee</th>
          <th scope="col" className="n hide">
            Reserve after
          </th>
          <th scope="col">
            <span className="visually-hidden">Limits and weight</span>
          </th>
        </tr>
      </thead>
      <tbody>
        {quotaRows(quotas, closed).map(({ quota, level, hasChildren }) => (
          <DraftRow
            key={quota.id}
            quota={quota}
            level={level}
            isClosed={hasChildren ? closed.has(quota.node) : null}
            isOpen={opened.has(quota.id)}
            typed={rows[quota.id] ?? {}}
            refused={refusals[quota.id] ?? {}}
            outlook={outlooks.get(quota.node)}
            onTwist={() => setClosed(flip(closed, quota.node))}
            onOpen={() => setOpened(flip(opened, quota.id))}
            onChange={(typed) => onChange(quota.id, typed)}
          />
        ))}
      </tbody>
    </table>
  );
}

function DraftRow({
  quota,
  level,
  isClosed,
  isOpen,
  typed,
  refused,
  outlook: after,
  onTwist,
  onOpen,
  onChange,
}: {
  quota: Quota;
  level: number;
  /** Whether what is below is hidden; null where nothing is. */
  isClosed: boolean | null;
  isOpen: boolean;
  typed: TypedFields;
  refused: RowErrors;
  outlook: Outlook | undefined;
  onTwist: () => void;
  onOpen: () => void;
  onChange: (typed: TypedFields) => void;
}) {
  const shown = rowFieldsOf(quota);
  const fields = { ...shown, ...typed };
  const { errors, isEdited } = readRow(quota, typed);
  const mayAsk = quota.can_edit.length > 0;
  const set = (change: TypedFields) => onChange(typedAfter(quota, typed, change));
  const written = shown.guaranteed;
  const percent = written.endsWith("%") ? ` (${written})` : "";
  const willBe = after?.guaranteedMgpu ?? quota.guaranteed_mgpu;
  const hasErrorInside = errors.borrowLimit ?? errors.lendLimit ?? errors.weight;
  return (
    <>
      <tr className={isEdited ? "edited" : undefined}>
        <th scope="row" title={quota.node} style={indented(level)}>
          {isClosed === null ? (
            <span className="twist" />
          ) : (
            <button
              type="button"
              className="plain twist"
              aria-expanded={!isClosed}
              aria-label={`${quota.node_name}: what is below`}
              onClick={onTwist}
            >
              {isClosed ? "▸" : "▾"}
            </button>
          )}
          {quota.node_name}
          {isEdited && <span className="visually-hidden"> (changed)</span>}
          <div className="only-phone small faint">now {formatGpus(quota.guaranteed_mgpu)}</div>
          {after !== undefined && after.hasChildren && after.reserveMgpu < 0 && (
            <div className="only-phone small bad-text">▲ {formatGpus(-after.reserveMgpu)} too many below</div>
          )}
        </th>
        <td className="n hide">{formatGpus(quota.use.in_use_mgpu)}</td>
        <td className="n hide">
          {formatGpus(quota.guaranteed_mgpu)}
          <span className="faint">{percent}</span>
        </td>
        <td>
          {mayAsk ? (
            <div className="guarantee">
              <TextInput
                aria-label={`New guarantee of ${quota.node_name}`}
                size="xs"
                value={fields.guaranteed}
                error={errors.guaranteed ?? refused.guaranteed}
                onChange={(event) => set({ guaranteed: event.currentTarget.value })}
              />
              {willBe !== quota.guaranteed_mgpu && (
                <span className="small dim nowrap">
                  {fields.guaranteed.includes("%") && `${formatGpus(willBe)}, `}
                  {formatDifference(quota.guaranteed_mgpu, willBe, formatGpus)}
                </span>
              )}
            </div>
          ) : (
            <span className="faint small">
              {willBe === quota.guaranteed_mgpu ? "not yours to change" : `follows: ${formatGpus(willBe)}`}
            </span>
          )}
        </td>
        <td className="n hide">
          <Reserve quota={quota} outlook={after} />
        </td>
        <td className="n">
          {mayAsk && (
            <button
              type="button"
              className="plain link small"
              aria-expanded={isOpen}
              aria-label={`Limits and weight of ${quota.node_name}`}
              onClick={onOpen}
            >
              limits{hasErrorInside && !isOpen ? " ▲" : ""}
            </button>
          )}
        </td>
      </tr>
      {isOpen && (
        <tr className="limits">
          <td colSpan={6}>
            <div className="even top">
              <TextInput
                label="Borrow limit"
                description={`${DEVICE_HEADS[quota.device]} above the guarantee; empty: no limit of its own. Now ${describeValue("borrow_limit_mgpu", quota.borrow_limit_mgpu)}.`}
                size="xs"
                inputMode="decimal"
                value={fields.borrowLimit}
                error={errors.borrowLimit ?? refused.borrowLimit}
                onChange={(event) => set({ borrowLimit: event.currentTarget.value })}
              />
              <TextInput
                label="Lend limit"
                description={`Idle ${DEVICE_WORDS[quota.device]} that others may use; empty: all. Now ${describeValue("lend_limit_mgpu", quota.lend_limit_mgpu)}.`}
                size="xs"
                inputMode="decimal"
                value={fields.lendLimit}
                error={errors.lendLimit ?? refused.lendLimit}
                onChange={(event) => set({ lendLimit: event.currentTarget.value })}
              />
              <TextInput
                label={`Weight for spare ${DEVICE_WORDS[quota.device]}`}
                description={`Against its siblings. Now ${quota.weight}.`}
                size="xs"
                inputMode="numeric"
                value={fields.weight}
                error={errors.weight ?? refused.weight}
                onChange={(event) => set({ weight: event.currentTarget.value })}
              />
            </div>
          </td>
        </tr>
      )}
    </>
  );
}

/** What a node would keep that is not guaranteed below; or how much its children have too much. */
function Reserve({ quota, outlook: after }: { quota: Quota; outlook: Outlook | undefined }) {
  if (after === undefined || !after.hasChildren) return <span className="faint">–</span>;
  if (after.reserveMgpu < 0) {
    return (
      <b className="bad-text" role="alert">
        ▲ {formatGpus(-after.reserveMgpu)} too many
        <span className="visually-hidden"> below {quota.node_name}</span>
      </b>
    );
  }
  return <>{formatGpus(after.reserveMgpu)}</>;
}
