import {
  createSortedRowModel,
  rowSortingFeature,
  tableFeatures,
  useTable,
  type ColumnDef,
  type Row as TableRow,
  type RowData,
} from "@tanstack/react-table";
import type { CSSProperties, ReactNode } from "react";

/** One column: its head, its cell in each row, and its cell in each total. */
export interface Column<Row, Total = never> {
  header: ReactNode;
  cell: (row: Row, index: number) => ReactNode;
  /** The cell of a line of totals; empty without it. */
  total?: (total: Total) => ReactNode;
  /** Whether it names the row: its cells are headings of their rows. */
  isHeading?: boolean;
  /** Whether it holds numbers or buttons, which stand at the right. */
  isRight?: boolean;
  /** Which screens show it. Columns go before rows on a phone. */
  only?: "wide" | "phone";
  /** What the head means, for a pointer that rests on it. */
  hint?: string;
  /** A class of the cells. */
  className?: string;
  /** A class of the head, such as one that says how wide the column is. */
  headClass?: string;
  /** A class of one cell. */
  tone?: (row: Row) => string | undefined;
  /** The whole of what a cell shortens, for a pointer that rests on it. */
  title?: (row: Row) => string | undefined;
  style?: (row: Row) => CSSProperties | undefined;
  /** Makes the table sortable by this value. Only for lists that are whole: a page of a list has not all rows. */
  sortBy?: (row: Row) => string | number;
  /** The order of a list that the server sorts, page by page, and how its head changes it. */
  order?: "ascending" | "descending" | "none";
  onOrder?: () => void;
}

type Features = typeof features;
const features = tableFeatures({ rowSortingFeature, sortedRowModel: createSortedRowModel() });

const ORDER_SIGNS = { ascending: " ↑", descending: " ↓", none: " ↕" };

/** Texts as people sort them: "node-2" before "node-10". */
const TEXT_ORDER = new Intl.Collator("en", { numeric: true });

function compare<Row extends RowData>(a: TableRow<Features, Row>, b: TableRow<Features, Row>, column: string): number {
  const [one, other] = [a.getValue(column), b.getValue(column)];
  if (typeof one === "number" && typeof other === "number") return one - other;
  return TEXT_ORDER.compare(String(one), String(other));
}

/** Rows of data under heads, with totals below. */
export function DataTable<Row extends RowData, Total = never>({
  label,
  className,
  rows,
  rowKey,
  columns: given,
  totals = [],
  limit = rows.length,
  isCurrent,
  rowClass,
  isHeadHidden = false,
}: {
  /** What a screen reader calls it; needless where a heading stands right above. */
  label?: string;
  className?: string;
  rows: readonly Row[];
  rowKey: (row: Row, index: number) => string | number;
  /** What is false is left out, so that a column may depend on a condition. */
  columns: readonly (Column<Row, Total> | false | null | undefined)[];
  totals?: readonly Total[];
  /** How many rows are shown, counted after sorting. */
  limit?: number;
  /** Marks the row whose detail is open. */
  isCurrent?: (row: Row) => boolean;
  rowClass?: (row: Row) => string | undefined;
  /** For a table that goes on with another one's rows. */
  isHeadHidden?: boolean;
}) {
  const columns = given.filter((column) => !!column);
  const definitions: ColumnDef<Features, Row>[] = columns.map((column, i) => ({
    id: String(i),
    accessorFn: (row) => column.sortBy?.(row),
    enableSorting: column.sortBy !== undefined,
    sortFn: compare,
  }));
  const table = useTable({ features, columns: definitions, data: rows });
  const headings = columns.map((column, i): Heading => {
    const sorting = table.getColumn(String(i));
    const sorted = sorting?.getIsSorted() ?? false;
    return {
      order: column.order ?? (sorted === false ? "none" : sorted === "asc" ? "ascending" : "descending"),
      toggle: column.onOrder ?? (column.sortBy && sorting?.getToggleSortingHandler()),
    };
  });
  return (
    <table className={className} aria-label={label}>
      <thead className={isHeadHidden ? "visually-hidden" : undefined}>
        <tr>
          <HeadCells columns={columns} headings={headings} />
        </tr>
      </thead>
      <tbody>
        {table
          .getRowModel()
          .rows.slice(0, limit)
          .map(({ original: row, index }) => (
            <tr key={rowKey(row, index)} className={rowClass?.(row)} aria-current={isCurrent?.(row) || undefined}>
              <RowCells columns={columns} row={row} index={index} />
            </tr>
          ))}
      </tbody>
      {totals.length > 0 && (
        <tfoot>
          {totals.map((total, n) => (
            <tr key={n}>
              {columns.map((column, i) => (
                <Cell key={i} isHeading={column.isHeading} className={classOf(column, column.className)}>
                  {column.total?.(total)}
                </Cell>
              ))}
            </tr>
          ))}
        </tfoot>
      )}
    </table>
  );
}

/** By what a head says that its column orders the rows, and how it changes that. */
export interface Heading {
  order: "ascending" | "descending" | "none";
  toggle: ((event: unknown) => void) | undefined;
}

/** The heads of the columns; `headings` has one for each of them. */
export function HeadCells<Row, Total>({
  columns,
  headings,
}: {
  columns: readonly Column<Row, Total>[];
  headings: readonly Heading[];
}) {
  return columns.map((column, i) => {
    const { order = "none", toggle } = headings[i] ?? {};
    return (
      <th
        key={i}
        scope="col"
        className={classOf(column, column.headClass)}
        title={column.hint}
        aria-sort={order === "none" ? undefined : order}
      >
        {toggle === undefined ? (
          column.header
        ) : (
          <button type="button" className="plain" onClick={toggle}>
            {column.header}
            <span aria-hidden="true">{ORDER_SIGNS[order]}</span>
          </button>
        )}
      </th>
    );
  });
}

/** The cells of one row. */
export function RowCells<Row, Total>({
  columns,
  row,
  index,
}: {
  columns: readonly Column<Row, Total>[];
  row: Row;
  index: number;
}) {
  return columns.map((column, i) => (
    // Not by the library's renderer, which takes a function for a component and mounts it anew each time.
    <Cell
      key={i}
      isHeading={column.isHeading}
      className={classOf(column, column.className, column.tone?.(row))}
      title={column.title?.(row)}
      style={column.style?.(row)}
    >
      {column.cell(row, index)}
    </Cell>
  ));
}

function classOf<Row, Total>({ isRight, only }: Column<Row, Total>, ...more: (string | undefined)[]): string | undefined {
  const classes = [isRight && "n", only === "wide" && "hide", only === "phone" && "only-phone", ...more];
  return classes.filter(Boolean).join(" ") || undefined;
}

function Cell({
  isHeading = false,
  ...rest
}: {
  isHeading?: boolean | undefined;
  className?: string | undefined;
  title?: string | undefined;
  style?: CSSProperties | undefined;
  children: ReactNode;
}) {
  return isHeading ? <th scope="row" {...rest} /> : <td {...rest} />;
}
