import { render, screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { describe, expect, it } from "vitest";

import { DataTable, type Column } from "./DataTable";

interface Node {
  name: string;
  gpus: number;
}

const NODES: Node[] = [
  { name: "node-10", gpus: 4 },
  { name: "node-2", gpus: 8 },
  { name: "node-1", gpus: 16 },
];

const NAME: Column<Node, number> = {
  header: "Node",
  isHeading: true,
  sortBy: (node) => node.name,
  cell: (node) => node.name,
  total: () => "Total",
};
const GPUS: Column<Node, number> = {
  header: "GPUs",
  isRight: true,
  sortBy: (node) => node.gpus,
  cell: (node) => node.gpus,
  total: (sum) => sum,
};

function show(more: Partial<Parameters<typeof DataTable<Node, number>>[0]> = {}) {
  render(<DataTable label="Nodes" rows={NODES} rowKey={(node) => node.name} columns={[NAME, GPUS]} {...more} />);
}

const named = () => screen.getAllByRole("rowheader").map((cell) => cell.textContent);

describe("a table", () => {
  // Planted: texts in the order of their characters, where node-10 comes before node-2.
  it("keeps the order of its rows until a head is chosen, then sorts up, down and back", async () => {
    show();
    expect(named()).toEqual(["node-10", "node-2", "node-1"]);
    const head = screen.getByRole("columnheader", { name: "Node" });
    expect(head).not.toHaveAttribute("aria-sort");
    await userEvent.click(screen.getByRole("button", { name: "Node" }));
    expect(named()).toEqual(["node-1", "node-2", "node-10"]);
    expect(head).toHaveAttribute("aria-sort", "ascending");
    await userEvent.click(screen.getByRole("button", { name: "Node" }));
    expect(named()).toEqual(["node-10", "node-2", "node-1"]);
    expect(head).toHaveAttribute("aria-sort", "descending");
    await userEvent.click(screen.getByRole("button", { name: "Node" }));
    expect(head).not.toHaveAttribute("aria-sort");
  });

  // Planted: the limit applied before sorting, which shows node-2 and node-10.
  it("sorts all rows before it cuts them", async () => {
    show({ limit: 2 });
    await userEvent.click(screen.getByRole("button", { name: "Node" }));
    expect(named()).toEqual(["node-1", "node-2"]);
  });

  // Planted: a column that is false as a column without a head.
  it("leaves out columns that are false, and keeps totals under their heads", () => {
    show({ columns: [NAME, false, null, undefined, GPUS], totals: [28] });
    expect(screen.getAllByRole("columnheader")).toHaveLength(2);
    expect(named()).toEqual(["node-10", "node-2", "node-1", "Total"]);
    expect(screen.getByRole("row", { name: "Total 28" })).toBeInTheDocument();
  });

  it("says which row is open", () => {
    show({ isCurrent: (node) => node.gpus === 8 });
    expect(screen.getByRole("row", { current: true })).toHaveTextContent("node-28");
  });
});
