import { act, fireEvent, render, screen, within } from "@testing-library/react";
import { describe, expect, it } from "vitest";

import { accessibilityFaults } from "../test/render";
import type { Column } from "./DataTable";
import { VirtualTable, type RowsInView } from "./VirtualTable";

const COLUMNS: Column<string>[] = [{ header: "Name", isHeading: true, cell: (name) => <a href={`#${name}`}>{name}</a> }];

function names(from: number, to: number): string[] {
  return Array.from({ length: to - from }, (_, i) => `row-${String(from + i)}`);
}

function show(rows: readonly string[], hasMore = false) {
  const views: RowsInView[] = [];
  const onView = (view: RowsInView) => views.push(view);
  const table = (given: readonly string[], more: boolean) => (
    <VirtualTable label="Names" rows={given} rowKey={(name) => name} columns={COLUMNS} hasMore={more} onView={onView} />
  );
  const view = render(table(rows, hasMore));
  return { ...view, views, change: (next: readonly string[], more = false) => view.rerender(table(next, more)) };
}

/** The list scrolled to this row. */
function scrollTo(row: number): void {
  const frame = screen.getByRole("region", { name: "Names" });
  act(() => {
    frame.scrollTop = 40 * row;
    fireEvent.scroll(frame);
  });
}

const shown = () => screen.getAllByRole("rowheader").map((cell) => cell.textContent);

describe("a list of any length", () => {
  // Against: all rows in the document.
  it("has the rows in view and some around them, and says which row each is", async () => {
    const { container, views } = show(names(0, 100_000));
    expect(shown().slice(0, 2)).toEqual(["row-0", "row-1"]);
    expect(shown().length).toBeLessThan(50);
    const table = screen.getByRole("table", { name: "Names" });
    expect(table).toHaveAttribute("aria-rowcount", "100001");
    expect(within(table).getByRole("columnheader", { name: "Name" }).closest("tr")).toHaveAttribute("aria-rowindex", "1");
    expect(screen.getByRole("row", { name: "row-1" })).toHaveAttribute("aria-rowindex", "3");
    expect(await accessibilityFaults(container)).toEqual([]);
    scrollTo(5_000);
    expect(shown().length).toBeLessThan(60);
    expect(shown()).not.toContain("row-0");
    expect(views.at(-1)?.first).toBeGreaterThan(4_000);
  });

  it("does not say how many rows there are before all are loaded", () => {
    const { change } = show(names(0, 100), true);
    expect(screen.getByRole("table")).toHaveAttribute("aria-rowcount", "-1");
    change(names(0, 120));
    expect(screen.getByRole("table")).toHaveAttribute("aria-rowcount", "121");
  });

  // Against: only the rows in view; the row with the focus is unmounted, and the page loses the focus.
  it("keeps the row that has the focus", () => {
    show(names(0, 10_000));
    screen.getByRole("link", { name: "row-3" }).focus();
    scrollTo(5_000);
    expect(shown()).toContain("row-3");
    expect(screen.getByRole("link", { name: "row-3" })).toHaveFocus();
  });

  it("has the focus itself when the row with it leaves the list", () => {
    const { change } = show(names(0, 100));
    screen.getByRole("link", { name: "row-3" }).focus();
    change(names(0, 100).filter((name) => name !== "row-3"));
    expect(screen.getByRole("region", { name: "Names" })).toHaveFocus();
  });
});
