import { screen, waitFor, within } from "@testing-library/react";
import { describe, expect, it } from "vitest";

import { aCompany, aProblem } from "../../mock/answer.ts";
import { aSession } from "../../mock/company.ts";
import { accessibilityFaults, open } from "../test/render";
import { CLASS_FIELDS, INSTALLATION_FIELDS, POLICY_FIELDS, readField, timeText, typedOf, type Field } from "./fields";

function fieldOf(fields: readonly Field[], name: string): Field {
  const found = fields.find((field) => field.name === name);
  if (found === undefined) throw new Error(name);
  return found;
}

describe("the fields", () => {
  it("say times exactly and read them back", () => {
    const grace = fieldOf(POLICY_FIELDS, "grace_period_s");
    for (const seconds of [0, 59, 300, 5400, 86_399, 86_400]) {
      expect(readField(grace, timeText(seconds))).toEqual({ value: seconds });
    }
    expect(typedOf(grace, 90_061)).toBe("1d1h1m1s");
  });

  it("refuse what is out of range, and a number without its unit", () => {
    const halfLife = fieldOf(POLICY_FIELDS, "fair_share_half_life_s");
    expect(readField(halfLife, "30m")).toEqual({ error: "From 1 h to 3650 d." });
    expect(readField(halfLife, "7")).toEqual({ error: "A time with its unit, such as 90s, 5m, 12h or 7d." });
    expect(readField(fieldOf(POLICY_FIELDS, "preemptions_max"), "0")).toEqual({ error: "From 1 to 1,000." });
    expect(readField(fieldOf(CLASS_FIELDS, "team_cap_mgpu"), "")).toEqual({ value: null });
  });
});

describe("the policy page", () => {
  it("sends only what was changed, in the version that was seen", async () => {
    const company = aCompany();
    const { user, requests, container } = open("/policy", { company });
    const grace = await screen.findByRole("textbox", { name: "Grace period" });
    expect(grace).toHaveValue("5m");
    const policy = within(screen.getByRole("region", { name: "Policy of AI Company" }));
    expect(policy.getByRole("button", { name: "Save" })).toBeDisabled();
    await user.clear(grace);
    await user.type(grace, "2d");
    expect(screen.getByText("From 0 s to 24 h.")).toBeInTheDocument();
    await user.clear(grace);
    await user.type(grace, "10m");
    await user.click(screen.getByRole("button", { name: "ai-company/research: earlier" }));
    await user.click(screen.getByRole("switch", { name: /pass blocked ones/ }));
    expect(await accessibilityFaults(container)).toEqual([]);
    await user.click(policy.getByRole("button", { name: "Save" }));
    await waitFor(() => expect(company.rules.policy.version).toBe(5));
    const [sent] = requests.filter(({ method }) => method === "PATCH");
    expect([sent?.headers["if-match"], sent?.body]).toEqual([
      '"v4"',
      {
        grace_period_s: 600,
        rank: ["ai-company/research", "ai-company/production"],
        skips_blocked_within_team: false,
      },
    ]);
  });

  it("tells what somebody else changed, keeps what was typed, and goes on from there", async () => {
    const company = aCompany();
    const { user, requests } = open("/policy", { company });
    const grace = await screen.findByRole("textbox", { name: "Grace period" });
    await user.clear(grace);
    await user.type(grace, "10m");
    Object.assign(company.rules.policy, { preemptions_max: 7, version: 5 });
    const policy = within(screen.getByRole("region", { name: "Policy of AI Company" }));
    await user.click(policy.getByRole("button", { name: "Save" }));
    const alert = await screen.findByRole("alert");
    expect(alert).toHaveTextContent("Preemptions of a job: 100 is now 7");
    expect(grace).toHaveValue("10m");
    await user.click(within(alert).getByRole("button", { name: /Go on from there/ }));
    await user.click(policy.getByRole("button", { name: "Save" }));
    await waitFor(() => expect(company.rules.policy).toMatchObject({ grace_period_s: 600, preemptions_max: 7 }));
    expect(requests.filter(({ method }) => method === "PATCH").map(({ body }) => body)).toEqual([
      { grace_period_s: 600 },
      { grace_period_s: 600 },
    ]);
  });

  // Planted: the form kept the rules that it was opened with.
  it("follows what is changed elsewhere, but for what was typed, and tells of that", async () => {
    const company = aCompany();
    const { user, requests, queryClient } = open("/policy", { company });
    const grace = await screen.findByRole("textbox", { name: "Grace period" });
    const most = screen.getByRole("textbox", { name: "Preemptions of a job" });
    await user.clear(grace);
    await user.type(grace, "10m");
    const changedElsewhere = async (change: object) => {
      Object.assign(company.rules.policy, change);
      await queryClient.invalidateQueries({ queryKey: ["quotas"] });
    };
    await changedElsewhere({ preemptions_max: 7, version: 5 });
    await waitFor(() => expect(most).toHaveValue("7"));
    expect(grace).toHaveValue("10m");
    expect(screen.queryByRole("alert")).toBeNull();

    await changedElsewhere({ grace_period_s: 900, version: 6 });
    const alert = await screen.findByRole("alert");
    expect(alert).toHaveTextContent("Grace period: 5 min is now 15 min");
    expect(alert).not.toHaveTextContent("Nothing was written");
    const policy = within(screen.getByRole("region", { name: "Policy of AI Company" }));
    expect(grace).toHaveValue("10m");
    expect(policy.getByRole("button", { name: "Save" })).toBeDisabled();
    await user.click(within(alert).getByRole("button", { name: "Take theirs" }));
    expect(grace).toHaveValue("15m");
    expect(policy.getByRole("button", { name: "Save" })).toBeDisabled();

    await user.clear(most);
    await user.type(most, "9");
    await user.click(policy.getByRole("button", { name: "Save" }));
    await waitFor(() => expect(company.rules.policy).toMatchObject({ grace_period_s: 900, preemptions_max: 9 }));
    const [sent] = requests.filter(({ method }) => method === "PATCH");
    expect([sent?.headers["if-match"], sent?.body]).toEqual(['"v6"', { preemptions_max: 9 }]);
  });

  it("changes a class in a drawer and shows a refusal at its field", async () => {
    const { user } = open("/policy", {
      override: ({ method }) =>
        method === "PATCH"
          ? aProblem(400, "invalid", "A class that preempts across teams needs a cap.", {
              errors: [{ pointer: "/team_cap_mgpu", detail: "is needed by such a class", code: "invalid" }],
            })
          : undefined,
    });
    await user.click(await screen.findByRole("button", { name: "Change critical" }));
    const drawer = within(await screen.findByRole("dialog"));
    await user.click(drawer.getByRole("switch", { name: /all teams/ }));
    await user.click(drawer.getByRole("button", { name: "Save" }));
    expect(await drawer.findByText("is needed by such a class")).toBeInTheDocument();
    expect(drawer.getByRole("textbox", { name: "Cap in each team" })).toBeInvalid();
  });

  it("only shows it to who may not change it, and the installation's to all", async () => {
    const session = aSession({ permissions: { "ai-company/research": ["view_tree", "manage_quota"] } });
    open("/policy", { company: aCompany({ session }) });
    expect(await screen.findByText("ai-company/production, then ai-company/research")).toBeInTheDocument();
    expect(await screen.findByText(INSTALLATION_FIELDS[0]?.meaning ?? "")).toBeInTheDocument();
    expect(screen.queryByRole("button", { name: /Save|Change/ })).toBeNull();
    expect(screen.queryByRole("textbox")).toBeNull();
  });

  it("lets platform administrators change what holds for all", async () => {
    const company = aCompany({ session: aSession({ permissions: { "": ["view_tree", "manage_quota", "manage_clusters"] } }) });
    const { user } = open("/policy", { company });
    const installation = within(await screen.findByRole("region", { name: "Policy of the installation" }));
    const count = await installation.findByRole("textbox", { name: "Reservations of a pool" });
    await user.clear(count);
    await user.type(count, "4");
    await user.click(installation.getByRole("button", { name: "Save" }));
    await waitFor(() => expect(company.rules.installation).toMatchObject({ reservations_max: 4, version: 2 }));
  });

  it("says what failed", async () => {
    open("/policy", {
      override: ({ path }) => (path.endsWith("/policy") ? aProblem(503, "down", "The database does not answer.") : undefined),
    });
    expect((await screen.findAllByRole("alert"))[0]).toHaveTextContent("The database does not answer.");
  });
});
