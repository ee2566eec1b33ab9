import { screen, within } from "@testing-library/react";
import { describe, expect, it } from "vitest";

import type { Session } from "../api/types";
import { aCompany } from "../../mock/answer.ts";
import { aSession } from "../../mock/company.ts";
import { page } from "../../mock/http.ts";
import { accessibilityFaults, open } from "../test/render";

const PAGE = "/chargeback?period=custom&start=2026-10-01T00:00:00Z&end=2026-11-01T00:00:00Z&scope=ai-company";
const FINANCE: Partial<Session> = {
  permissions: { "ai-company": ["view_tree", "view_costs", "view_jobs", "manage_prices"] },
};

async function theCard() {
  return screen.findByRole("region", { name: "Scheduled deliveries" });
}

describe("scheduled deliveries", () => {
  it("shows each schedule, and each file with its last error", async () => {
    open(PAGE, { company: aCompany({ session: aSession(FINANCE) }) });
    const card = await theCard();
    const schedules = await within(card).findByRole("table", { name: "Schedules" });
    expect(within(schedules).getAllByRole("row").slice(1).map((row) => row.textContent)).toEqual([
      "FOCUS Cost and Usage, CSVdailyfinance-sharefiona@ai-companyEnd",
      "Charges, Parquetmonthlyarchivefiona@ai-companyEnd",
    ]);
    const deliveries = await within(card).findByRole("table", { name: "Deliveries" });
    expect(within(deliveries).getAllByRole("row").slice(1).map((row) => row.textContent)).toEqual([
      expect.stringMatching(/^focus_cost_and_usage.*2026-11-20finance-sharewaiting .*Ask the operator to mount it\.$/),
      expect.stringMatching(/^FOCUS Cost and Usage, CSV2026-11-19finance-sharefailed A later file replaces it\.Deliver again$/),
      expect.stringMatching(/^charges-ai-company.*2026-10archivedone /),
    ]);
    expect(await accessibilityFaults(card)).toEqual([]);
  });

  it("orders a delivery, ends one and repeats one", async () => {
    const { user, requests } = open(PAGE, { company: aCompany({ session: aSession(FINANCE) }) });
    const card = await theCard();
    await user.click(await within(card).findByRole("combobox", { name: "When" }));
    await user.click(await screen.findByRole("option", { name: "Daily, the month so far" }));
    await user.click(within(card).getByRole("combobox", { name: "Target" }));
    await user.click(await screen.findByRole("option", { name: "finance-share" }));
    await user.click(within(card).getByRole("button", { name: "Deliver" }));
    await user.click(await within(card).findByRole("button", { name: "End Charges, Parquet to archive" }));
    await user.click(within(card).getByRole("button", { name: /^Deliver charges-.* of 2026-10-01 again$/ }));
    const sent = requests.filter(({ method }) => method !== "GET").map(({ method, path, body }) => [method, path.split("/v1/")[1], body]);
    expect(sent).toEqual([
      [
        "POST",
        "delivery-schedules",
        { organization: "ai-company", dataset: "charges", format: "csv", frequency: "daily", target: "finance-share" },
      ],
      ["DELETE", "delivery-schedules/01a1fd00-0000-7000-8000-0000000000d1", null],
      ["POST", "deliveries/01a1fd00-0000-7000-8000-0000000000d9/repeat", null],
    ]);
  });

  it("offers nothing to change to people without the right, and says who names targets", async () => {
    const session = aSession({ permissions: { "ai-company": ["view_tree", "view_costs", "view_jobs"] } });
    open(PAGE, {
      company: aCompany({ session }),
      override: ({ path, query }) => (path.endsWith("/delivery-targets") ? page([], query) : undefined),
    });
    const card = await theCard();
    expect(await within(card).findByText(/The operator names folders and stores/)).toBeInTheDocument();
    expect(await within(card).findByRole("table", { name: "Deliveries" })).toBeInTheDocument();
    expect(within(card).queryByRole("button", { name: /^(End|Deliver)/ })).toBeNull();
  });
});
