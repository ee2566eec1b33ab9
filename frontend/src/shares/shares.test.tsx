import { screen, waitFor, within } from "@testing-library/react";
import { describe, expect, it } from "vitest";

import { aCapacity } from "../../mock/shares";
import { accessibilityFaults, open } from "../test/render";
import { daysOf } from "./outlook";
import { levelText, percentOf } from "./levels";

const NLP = "ai-company/research/nlp";

describe("fair share", () => {
  it("says the place, the reason, the order of siblings and the outlook", async () => {
    const { container, user } = open(`/fair-share?node=${NLP}&pool=h100`);
    const why = await screen.findByRole("region", { name: "Place and reason" });
    expect(why).toHaveTextContent("nlp comes after others: it has 33.3 % of the weight and 73.8 % of the recent use.");
    expect(why).toHaveTextContent("Nodes above are compared first:research comes after others");
    expect(within(why).getByRole("table", { name: "Numbers" })).toHaveTextContent(
      "Fair share: weight over use (1 = even)0.45Place among siblings3 of 3Part of the weight33.3 %Part of the recent use73.8 %Recent use, decayed3,100.00 GPU-hUse counts half after7 d",
    );
    const order = await screen.findByRole("table", { name: "Order in research" });
    expect(within(order).getAllByRole("row").map((row) => row.textContent)).toEqual([
      "NodePlaceWeightRecent useFair shareGPU-h",
      "speech133.3 %7.1 %4.69300.00",
      "vision233.3 %19 %1.75800.00",
      "nlp333.3 %73.8 %0.453,100.00",
    ]);
    const outlook = screen.getByRole("region", { name: "Outlook" });
    await user.click(within(outlook).getByRole("button", { name: "Show as table" }));
    const rows = within(within(outlook).getByRole("table", { name: "Outlook" })).getAllByRole("row");
    expect(rows[2]).toHaveTextContent("7 d1,550.00");
    expect(screen.getByText(`tidegate fair-share ${NLP} --pool h100`)).toBeInTheDocument();
    expect(await accessibilityFaults(container)).toEqual([]);
  });

  it("of an organization has its nodes and no siblings", async () => {
    const { router, user } = open("/fair-share?node=ai-company&pool=h100");
    const order = await screen.findByRole("table", { name: "Order in ai-company" });
    expect(within(order).getAllByRole("row")).toHaveLength(4);
    await user.click(within(order).getByRole("link", { name: "research" }));
    await waitFor(() => expect(router.state.location.search).toMatchObject({ node: "ai-company/research", pool: "h100" }));
  });

  it("writes levels, parts and days", () => {
    expect([levelText(607), levelText(1000), levelText(null)]).toEqual(["0.61", "1.00", "no use"]);
    expect([percentOf(823), percentOf(500)]).toEqual(["82.3 %", "50 %"]);
    expect([daysOf(604_800), daysOf(43_200)]).toEqual(["7 d", "0.5 d"]);
  });
});

describe("capacity", () => {
  it("has free blocks by size, loans and starved teams", async () => {
    const { container } = open("/capacity?pool=h100");
    const blocks = await screen.findByRole("table", { name: "Free blocks by size" });
    expect(within(blocks).getAllByRole("row").map((row) => row.textContent)).toEqual([
      "ClusterFreeFree nodesFragmentedSize × blocks1 GPU2 GPUs4 GPUs8 GPUs16 GPUs32 GPUs",
      "kube-bstarts nothing now70 of 12100 %1 × 7, 2 × 3, 4 × 1731000",
      "slurm-a454 of 11328.8 %1 × 45, 2 × 21, 4 × 10, 8 × 4, 16 × 2, 32 × 1452110421",
    ]);
    expect(screen.getByRole("region", { name: "Starved teams" })).toHaveTextContent("nlp200200");
    expect(within(screen.getByRole("table", { name: "Loans" })).getAllByRole("row")[1]).toHaveTextContent(
      "ai-company/productionai-company/researchai-company300",
    );
    expect(screen.getByText("tidegate capacity ai-company --pool h100")).toBeInTheDocument();
    expect(await accessibilityFaults(container)).toEqual([]);
  });

  it("says that nobody borrows or starves", async () => {
    open("/capacity?pool=h100", {
      override: ({ path }) =>
        path === "/api/v1/capacity"
          ? { status: 200, body: { ...aCapacity("h100"), clusters: [], loans: [], starved: [] } }
          : undefined,
    });
    expect(await screen.findByText("No team waits inside of its guarantee.")).toBeInTheDocument();
    expect(screen.getByText("Nobody borrows now.")).toBeInTheDocument();
    expect(screen.getByText("No cluster has nodes of this pool.")).toBeInTheDocument();
  });
});
