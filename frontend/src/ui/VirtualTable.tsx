import { defaultRangeExtractor, useVirtualizer, type Range } from "@tanstack/react-virtual";
import { Fragment, useEffect, useRef, useState, type FocusEvent } from "react";

import { HeadCells, RowCells, type Column, type Heading } from "./DataTable";
import "./virtual-table.css";

const ROW_PX = 37;
/** Rows in the document above and below those in view, so that the Tab key finds the next one. */
const ROWS_AROUND = 10;
/** Nearer to the top than this, a reader sees what is new at the top. */
const TOP_PX = 8;

/** The rows that a reader has in view, counted from 0, and whether they are being scrolled. */
export interface RowsInView {
  first: number;
  last: number;
  isScrolling: boolean;
}

/**
 * A list of any length, of which the document has the rows in view, some around them, and the row that has the
 * focus. Rows in view keep their place when rows come or go above them, unless the list stands at its top.
 */
export function VirtualTable<Row>({
  label,
  rows,
  rowKey,
  columns: given,
  hasMore,
  onView,
}: {
  label: string;
  rows: readonly Row[];
  /** The same row has the same key in every list. */
  rowKey: (row: Row) => string;
  columns: readonly (Column<Row> | false | null | undefined)[];
  /** Whether there are rows that are not loaded yet. */
  hasMore: boolean;
  onView: (view: RowsInView) => void;
}) {
  const columns = given.filter((column) => !!column);
  const frame = useRef<HTMLDivElement>(null);
  const [focused, setFocused] = useState<string | null>(null);
  const [isAtTop, setIsAtTop] = useState(true);
  const focusedIndex = focused === null ? -1 : rows.findIndex((row) => rowKey(row) === focused);
  // eslint-disable-next-line react-hooks/incompatible-library -- useVirtualizer returns functions that change; no React compiler runs here
  const virtualizer = useVirtualizer<HTMLDivElement, HTMLTableRowElement>({
    count: rows.length,
    getScrollElement: () => frame.current,
    estimateSize: () => ROW_PX,
    getItemKey: (index) => keyAt(rows, rowKey, index),
    rangeExtractor: (range) => withRow(range, focusedIndex),
    overscan: ROWS_AROUND,
    anchorTo: isAtTop ? "start" : "end",
  });
  const { range, isScrolling } = virtualizer;
  const [first, last] = [range?.startIndex ?? 0, range?.endIndex ?? 0];

  useEffect(() => {
    onView({ first, last, isScrolling });
  }, [onView, first, last, isScrolling]);

  // The row that had the focus has left the list: the list has it then, and not the whole page.
  const isFocusLost = focused !== null && focusedIndex < 0;
  useEffect(() => {
    if (isFocusLost) frame.current?.focus({ preventScroll: true });
  }, [isFocusLost]);

  const noteFocus = (event: FocusEvent<HTMLElement>) => {
    const index = event.target.closest("tr")?.dataset.index;
    setFocused(index === undefined ? null : keyAt(rows, rowKey, Number(index)));
  };
  const noteBlur = (event: FocusEvent<HTMLElement>) => {
    if (event.relatedTarget !== null) setFocused(null);
  };
  const headings = columns.map(({ order = "none", onOrder }): Heading => ({ order, toggle: onOrder }));
  const items = virtualizer.getVirtualItems();
  return (
    <div
      ref={frame}
      className="rows-frame"
      role="region"
      aria-label={label}
      tabIndex={0}
      onScroll={(event) => setIsAtTop(event.currentTarget.scrollTop < TOP_PX)}
      onFocus={noteFocus}
      onBlur={noteBlur}
    >
      <table aria-label={label} aria-rowcount={hasMore ? -1 : rows.length + 1}>
        <thead>
          <tr aria-rowindex={1}>
            <HeadCells columns={columns} headings={headings} />
          </tr>
        </thead>
        <tbody>
          {items.map(({ index, key, start }, i) => {
            const row = rows[index];
            return (
              row !== undefined && (
                <Fragment key={key}>
                  <Gap px={start - (items[i - 1]?.end ?? 0)} columns={columns.length} />
                  <tr ref={virtualizer.measureElement} data-index={index} aria-rowindex={index + 2}>
                    <RowCells columns={columns} row={row} index={index} />
                  </tr>
                </Fragment>
              )
            );
          })}
          <Gap px={virtualizer.getTotalSize() - (items.at(-1)?.end ?? 0)} columns={columns.length} />
        </tbody>
      </table>
    </div>
  );
}

/** The place of rows that are not in the document. */
function Gap({ px, columns }: { px: number; columns: number }) {
  if (px <= 0) return null;
  return (
    <tr aria-hidden="true" className="gap">
      <td colSpan={columns} style={{ height: px }} />
    </tr>
  );
}

function keyAt<Row>(rows: readonly Row[], rowKey: (row: Row) => string, index: number): string {
  const row = rows[index];
  return row === undefined ? String(index) : rowKey(row);
}

/** The rows of a range, and one more wherever it is. */
function withRow(range: Range, index: number): number[] {
  const shown = defaultRangeExtractor(range);
  if (index < 0 || shown.includes(index)) return shown;
  return [...shown, index].sort((a, b) => a - b);
}
