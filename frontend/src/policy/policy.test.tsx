import { screen, waitFor, within } from "@testing-library/react";
import { describe, expect, it } from "vitest";

import { aCompany } from "../../mock/answer.ts";
import { aProblem } from "../../mock/http.ts";
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
    expect(readField(halfLife, "7")).toEqual({ error: "'7' has no unit. Write 7s, 7m or 7h." });
    expect(readField(fieldOf(POLICY_FIELDS, "preemptions_max"), "0")).toEqual({ error: "From 1 to 1,000." });
    expect(readField(fieldOf(CLASS_FIELDS, "team_cap_mgpu"), "")).toEqual({ value: null });
  });
});

describe("the policy page", () => {
  it("changes, makes and removes time limits", async () => {
    const company = aCompany();
    const { user, requests, container } = open("/policy", { company });
    const card = within(await screen.findByRole("region", { name: "Time limits" }));
    const table = within(await card.findByRole("table"));
    expect(table.getAllByRole("row").map((row) => row.textContent)).toEqual([
      "OfDefaultLongestChange",
      "pool h10024 h7 dchange",
      "ai-company/researchnone72 hchange",
      "class low4 hnonechange",
    ]);
    await user.click(card.getByRole("button", { name: "Change the time limits of pool h100" }));
    const side = within(await screen.findByRole("dialog"));
    const longest = side.getByRole("textbox", { name: "Longest" });
    await user.clear(longest);
    await user.type(longest, "59s");
    expect(side.getByText("From 1 min to 365 d.")).toBeInTheDocument();
    await user.clear(longest);
    expect(await accessibilityFaults(container)).toEqual([]);
    await user.click(side.getByRole("button", { name: "Save" }));
    await waitFor(() => expect(company.rules.limits[0]?.version).toBe(2));
    expect(requests.find(({ method }) => method === "PATCH")?.body).toEqual({ longest_s: null });

    await user.click(card.getByRole("button", { name: "New time limits…" }));
    const made = within(await screen.findByRole("dialog"));
    await user.click(made.getByRole("combobox", { name: "Of" }));
    expect(screen.queryByRole("option", { name: "ai-company/research" })).toBeNull();
    await user.click(await screen.findByRole("option", { name: "ai-company/research/nlp" }));
    await user.type(made.getByRole("textbox", { name: "Default" }), "2h");
    await user.click(made.getByRole("button", { name: "Save" }));
    await waitFor(() => expect(company.rules.limits).toHaveLength(4));
    expect(requests.find(({ method }) => method === "POST")?.body).toEqual({
      node: "ai-company/research/nlp",
      default_s: 7200,
      longest_s: null,
    });

    await user.click(await card.findByRole("button", { name: "Change the time limits of class low" }));
    await user.click(within(await screen.findByRole("dialog")).getByRole("button", { name: "Remove" }));
    await waitFor(() => expect(company.rules.limits.map((each) => each.priority_class)).not.toContain("low"));
  });

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

  it("tells grace, cap and price of a class under its name on a phone", async () => {
    // Planted: the columns are left out there, and nothing takes their place.
    open("/policy");
    const name = await screen.findByRole("rowheader", { name: /^critical/ });
    const lines = name.querySelectorAll(".only-phone > div");
    expect([...lines].map((each) => each.textContent)).toEqual(["grace 5 min", "cap none", "price 1.5×"]);
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

describe("priority classes", () => {
  function theClasses() {
    return within(screen.getByRole("region", { name: "Priority classes" }));
  }

  it("are made with a name, rules and a price", async () => {
    const session = aSession({ permissions: { "ai-company": ["view_tree", "manage_quota", "manage_prices"] } });
    const company = aCompany({ session });
    const { user, requests } = open("/policy", { company });
    await user.click(await screen.findByRole("button", { name: "New class…" }));
    const form = within(await screen.findByRole("dialog", { name: /New priority class/ }));
    const add = form.getByRole("button", { name: "Add the class" });
    expect(add).toBeDisabled();
    await user.type(form.getByRole("textbox", { name: /^Name/ }), "deadline");
    await user.type(form.getByRole("textbox", { name: "Cap in each team" }), "64");
    const price = form.getByRole("textbox", { name: "Price" });
    await user.clear(price);
    await user.type(price, "100.1");
    expect(form.getByText("From 0 to 100 times.")).toBeInTheDocument();
    expect(add).toBeDisabled();
    await user.clear(price);
    await user.type(price, "2.5");
    await user.click(add);
    expect(await screen.findByRole("row", { name: /^deadline/ })).toBeInTheDocument();
    const [sent] = requests.filter(({ method }) => method === "POST");
    expect(sent?.body).toEqual({
      organization: "ai-company",
      name: "deadline",
      description: "",
      order: 50,
      grace_period_s: 300,
      team_cap_mgpu: 64_000,
      preempts_within_team: false,
      preempts_across_teams: false,
      price_multiplier_ppm: 2_500_000,
    });
  });

  it("that are taken are refused with the server's sentence", async () => {
    const { user } = open("/policy");
    await user.click(await screen.findByRole("button", { name: "New class…" }));
    const form = within(await screen.findByRole("dialog", { name: /New priority class/ }));
    await user.type(form.getByRole("textbox", { name: /^Name/ }), "high");
    await user.click(form.getByRole("button", { name: "Add the class" }));
    expect(await form.findByRole("alert")).toHaveTextContent("has a priority class high already");
  });

  it("are retired, and removed only while no job was of them", async () => {
    const company = aCompany();
    const { user, requests } = open("/policy?name=low", { company });
    const drawer = within(await screen.findByRole("dialog", { name: "Priority class low" }));
    await user.click(drawer.getByRole("button", { name: "Remove…" }));
    await user.click(await screen.findByRole("button", { name: "Remove it" }));
    expect(await drawer.findByRole("alert")).toHaveTextContent(/Jobs use or used the class low/);
    const [removal] = requests.filter(({ method }) => method === "DELETE");
    expect(removal?.headers["if-match"]).toBe('"v1"');
    await user.click(drawer.getByRole("switch", { name: /^Retired/ }));
    await user.click(drawer.getByRole("button", { name: "Save" }));
    expect(await theClasses().findByText("retired")).toBeInTheDocument();
    expect(company.rules.classes.find(({ name }) => name === "low")?.is_retired).toBe(true);
  });

  // Planted: the default class could be retired.
  it("keep the one of jobs that name none", async () => {
    open("/policy?name=normal");
    const drawer = within(await screen.findByRole("dialog", { name: "Priority class normal" }));
    expect(drawer.queryByRole("switch", { name: /^Retired/ })).toBeNull();
    expect(drawer.queryByRole("button", { name: "Remove…" })).toBeNull();
  });

  it("have a price that finance changes, and nothing else", async () => {
    const session = aSession({ permissions: { "ai-company": ["view_tree", "manage_prices"] } });
    open("/policy?name=high", { company: aCompany({ session }) });
    const drawer = within(await screen.findByRole("dialog", { name: "Priority class high" }));
    expect(drawer.getAllByRole("textbox").map((box) => box.getAttribute("value"))).toEqual(["1"]);
    expect(drawer.queryByRole("button", { name: "Remove…" })).toBeNull();
    expect(theClasses().queryByRole("button", { name: "New class…" })).toBeNull();
  });

  // Against: an empty number is sent as 0.
  it("changes which changes need a second person", async () => {
    const company = aCompany();
    const { user, requests } = open("/policy", { company });
    const card = within(await screen.findByRole("region", { name: "Second person" }));
    await user.type(await card.findByRole("textbox", { name: "From this many stopped jobs" }), "1");
    await user.type(card.getByRole("textbox", { name: "Above this many moved GPUs" }), "16");
    await user.click(card.getByRole("switch", { name: /^Changes of the policy and of classes/ }));
    await user.click(card.getByRole("button", { name: "Save" }));
    await waitFor(() => expect(company.rules.secondPerson.version).toBe(2));
    const patches = requests.filter(({ method }) => method === "PATCH").map(({ body }) => body);
    expect(patches).toEqual([{ stopped_jobs_min: 1, moved_mgpu_max: 16_000, guards_rules: true }]);
    await user.clear(card.getByRole("textbox", { name: "From this many stopped jobs" }));
    await user.click(card.getByRole("button", { name: "Save" }));
    await waitFor(() => expect(company.rules.secondPerson.stopped_jobs_min).toBeNull());
    expect(card.getByText("tidegate policy second-person ai-company")).toBeInTheDocument();
  });
});
