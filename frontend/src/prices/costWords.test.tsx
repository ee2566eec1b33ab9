import { screen, waitFor, within } from "@testing-library/react";
import { describe, expect, it } from "vitest";

import { aCompany, answer } from "../../mock/answer.ts";
import { theJobs } from "../../mock/jobs.ts";
import { accessibilityFaults, open } from "../test/render";
import { costWords } from "./costWords";

const NANO = 1_000_000_000;

describe("the words of a cost", () => {
  it.each([
    [8, 0, "pay_per_use", "€8.00"],
    [8, 16, "commitment", "€8.00; covered by the commitment: €16.00"],
    [0, 16, "showback", "showback: not billed (would cost €16.00)"],
    [8, 16, "showback", "€8.00; showback, not billed: €16.00"],
    [8, 16, "mixed", "€8.00; not billed: €16.00"],
    [0, 0, "showback", "€0.00"],
  ] as const)("of %d billed and %d not, in %s", (billed, unbilled, mode, words) => {
    expect(costWords(billed * NANO, unbilled * NANO, mode, "EUR")).toBe(words);
  });

  /** Against: a plan that says 0. */
  it("stand in the plan of a job", async () => {
    const company = aCompany();
    const { user } = open("/submit?scope=ai-company/research/vision", {
      company,
      override: (request) =>
        request.method === "POST" && request.query.get("dry_run") !== null
          ? changed(answer(company, request), { cost_per_hour_nano: 0, unbilled_per_hour_nano: 40 * NANO, price_mode: "showback" })
          : undefined,
    });
    const gpus = await screen.findByRole("textbox", { name: "GPUs in total" });
    await user.clear(gpus);
    await user.type(gpus, "20");
    const plan = await screen.findByRole("region", { name: "What would happen" });
    const cost = () => within(plan).findByRole("row", { name: /^Cost per hour / });
    await waitFor(async () => expect(await cost()).toHaveTextContent("Cost per hourshowback: not billed (would cost €40.00)"));
    expect(await accessibilityFaults(plan)).toEqual([]);
  });

  it("stand in the plan of a longer time limit", async () => {
    const company = aCompany();
    const running = theJobs().find(({ can }) => can.includes("extend"));
    if (running === undefined) throw new Error("the story has one");
    const { user } = open(`/jobs/${running.id}`, {
      company,
      override: (request) =>
        request.path.endsWith("/extension-plan")
          ? changed(answer(company, request), { cost_nano: 2 * NANO, unbilled_nano: 3 * NANO, price_mode: "commitment" })
          : undefined,
    });
    await user.click(await screen.findByRole("button", { name: "Extend" }));
    const dialog = await screen.findByRole("dialog");
    await user.click(within(dialog).getByRole("button", { name: "Show the plan" }));
    expect(await within(dialog).findByRole("row", { name: /^Costs at most/ })).toHaveTextContent(
      "Costs at most€2.00; covered by the commitment: €3.00",
    );
  });
});

function changed(reply: ReturnType<typeof answer>, body: object): ReturnType<typeof answer> {
  return { ...reply, body: { ...(reply.body as object), ...body } };
}
