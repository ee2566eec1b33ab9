import { screen, waitFor, within } from "@testing-library/react";
import { describe, expect, it } from "vitest";

import { aCompany } from "../../mock/answer";
import { aSession } from "../../mock/company";
import { anEntitlement } from "../../mock/entitlement";
import type { Entitlement } from "../api/types";
import { accessibilityFaults, open } from "../test/render";

const NLP = "ai-company/research/nlp";

function researcher() {
  return aSession({
    grants: [{ role: "researcher", node_path: NLP }],
    permissions: { [NLP]: ["view_tree", "submit_jobs"] },
  });
}

function withPool(change: Partial<Entitlement["pools"][number]>) {
  const company = aCompany({ session: researcher() });
  const found = anEntitlement(NLP, company.quotas);
  const pools = found.pools.map((pool) => ({ ...pool, ...change }));
  return open("/", {
    company,
    override: ({ path }) => (path === "/api/v1/entitlement" ? { status: 200, body: { ...found, pools } } : undefined),
  });
}

describe("the entitlement of a team", () => {
  it("has what could start by size, waits, amounts and people", async () => {
    const { container } = open("/", { company: aCompany({ session: researcher() }) });
    const card = await screen.findByRole("region", { name: "Entitlement" });
    const sizes = within(await within(card).findByRole("table", { name: "What could start now" })).getAllByRole("row");
    expect(sizes.slice(0, 6).map((row) => row.textContent)).toEqual([
      "GPUsStartWait p50p95Jobs",
      "1now, guaranteed4 s5 min 40 s412",
      "2now, guaranteedno datano data0",
      "4now, guaranteedno datano data0",
      "8now, guaranteed1 min 15 s1 h 30 min96",
      "16 on 2 nodesnow, guaranteedno datano data0",
    ]);
    const amounts = within(card).getByRole("table", { name: "Amounts" });
    expect(amounts).toHaveTextContent("Fair share (1 = even)3.40Place among siblings1 of 3");
    const people = within(card).getByRole("table", { name: "Whom to talk to" });
    expect(people).toHaveTextContent("Leo Brandtteam lead of nlp");
    expect(people).toHaveTextContent("ai-company/productionborrows 200 from nlp");
    expect(within(card).getByText(`tidegate entitlement ${NLP} --pool h100`)).toBeInTheDocument();
    expect(within(card).getByRole("link", { name: "Ask for more" })).toHaveAttribute(
      "href",
      `/requests?ask=guarantee&node=${NLP}&pool=h100`,
    );
    expect(await accessibilityFaults(container)).toEqual([]);
  });

  // Against: sizes without starts are left out.
  it("says that starts are not computed, and keeps the waits", async () => {
    withPool({ starts: null });
    const card = await screen.findByRole("region", { name: "Entitlement" });
    const sizes = within(await within(card).findByRole("table", { name: "What could start now" })).getAllByRole("row");
    expect(sizes.slice(1).map((row) => row.textContent)).toEqual([
      "1unknown4 s5 min 40 s412",
      "8unknown1 min 15 s1 h 30 min96",
      "64unknown1 h 5 min11 h 23 min11",
    ]);
  });

  it("counts down to the first reclaim", async () => {
    const until = new Date(Date.now() + 252_000).toISOString();
    withPool({ reclaimed: { jobs: 2, mgpu: 32_000, until }, starts: null, waits: [] });
    const card = await screen.findByRole("region", { name: "Entitlement" });
    await waitFor(() =>
      expect(card).toHaveTextContent(/32 GPUs of 2 jobs are being reclaimed, the first within 4:1\d\./),
    );
    expect(card).toHaveTextContent("Not computed now. The page asks again in a minute.");
  });
});
