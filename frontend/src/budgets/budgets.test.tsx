import { screen, waitFor, within } from "@testing-library/react";
import { describe, expect, it } from "vitest";

import { aBudget } from "../../mock/budgets.ts";
import { aProblem } from "../../mock/http.ts";
import { accessibilityFaults, open, type Override } from "../test/render";
import { formatWithUnit, partsOf, readAmount, windowText } from "./amounts";
import { runsOutAtMs } from "./runsOut";

const HOUR = 3_600_000;

describe("amounts", () => {
  it("are in the unit of the measure", () => {
    expect(formatWithUnit(1_234 * HOUR, aBudget(1))).toBe("1,234.0 GPU-hours");
    expect(formatWithUnit(5_400_000_000, aBudget(1, { measure: "credits" }))).toBe("1.5 credits");
    expect(formatWithUnit(-5_400_000_000, aBudget(1, { measure: "money", currency: "EUR" }))).toBe("−€5.40");
    expect(windowText(aBudget(1, { window: "rolling", rolling_days: 30 }))).toBe("30 days");
  });

  // Against: the pace since the window began, in the place of that of the forecast.
  it("run out at the pace of the forecast, if before the window ends", () => {
    const state = { as_of: "2026-11-20T00:00:00Z", window_end: "2026-11-30T00:00:00Z", used: 60, forecast: 110 };
    expect(runsOutAtMs(aBudget(1, { limit: 100, state }))).toBe(Date.parse("2026-11-28T00:00:00Z"));
    expect(runsOutAtMs(aBudget(1, { limit: 110, state }))).toBeNull();
    expect(runsOutAtMs(aBudget(1, { limit: 60, state }))).toBeNull();
    expect(runsOutAtMs(aBudget(1, { limit: 100, state: { ...state, forecast: null } }))).toBeNull();
  });

  // Planted: the length of the limit alone, so that parts beyond it are cut off.
  it("fill a bar as long as the limit, or as what is used and on hold", () => {
    const state = { used: 60 * HOUR, on_hold: 20 * HOUR, forecast_low: 70 * HOUR, forecast_high: 90 * HOUR };
    expect(partsOf(aBudget(1, { limit: 100 * HOUR, state }))).toEqual({
      used: 60,
      onHold: 20,
      limit: 100,
      forecast: { from: 70, to: 90 },
    });
    expect(partsOf(aBudget(1, { limit: 40 * HOUR, state }))).toMatchObject({ used: 75, onHold: 25, limit: 50 });
  });

  it("are read as people type them", () => {
    expect(readAmount("1,000.5", "gpu_hours")).toBe(1_000.5 * HOUR);
    expect(["0", "-1", "many", "", "1e30"].map((text) => readAmount(text, "money"))).toEqual([null, null, null, null, null]);
  });
});

describe("budgets", () => {
  it("show what is used, on hold and left, and when there is room again", async () => {
    open("/budgets");
    const table = within(await screen.findByRole("table", { name: "Budgets" }));
    const rows = table.getAllByRole("row").slice(1);
    expect(rows[0]).toHaveTextContent("Training");
    expect(rows[0]).toHaveTextContent("30,000.0 used · 7,500.0 on hold");
    expect(rows[1]).toHaveTextContent("−€5,400.00");
    expect(rows[1]).toHaveTextContent("room by");
    expect(rows[0]).toHaveTextContent("stop startscounted, not held on slurm-a");
    expect(rows[2]).not.toHaveTextContent("not held");
    expect(rows[2]).toHaveTextContent("bob in ai-company/research/nlp · h100");
    expect(within(rows[2] as HTMLElement).queryByRole("button")).toBeNull();
    expect(
      table.getByRole("img", { name: "30,000.0 used, 7,500.0 on hold of 50,000.0 GPU-hours" }),
    ).toBeInTheDocument();
    const alerts = within(await screen.findByRole("table", { name: "Alerts" }));
    expect(alerts.getAllByRole("row")[2]).toHaveTextContent("forecast of 100 %");
    expect(await accessibilityFaults(document.body)).toEqual([]);
  });

  it("are made with what the form says", async () => {
    const sent: unknown[] = [];
    const making: Override = ({ path, method, body }) => {
      if (method !== "POST" || !path.endsWith("/budgets")) return undefined;
      sent.push(body);
      return { status: 201, body: aBudget(9, { name: "New" }) };
    };
    const { user } = open("/budgets", { override: making });
    await user.click(await screen.findByRole("button", { name: "New budget…" }));
    const dialog = within(await screen.findByRole("dialog"));
    await user.click(dialog.getByRole("button", { name: "Make budget" }));
    expect(dialog.getByText("Give it a name.")).toBeInTheDocument();
    await user.type(dialog.getByRole("textbox", { name: "Name" }), "New");
    await user.type(dialog.getByRole("textbox", { name: "Limit in GPU-hours" }), "500");
    expect(await accessibilityFaults(document.body)).toEqual([]);
    await user.click(dialog.getByRole("button", { name: "Make budget" }));
    await waitFor(() =>
      expect(sent).toEqual([
        {
          name: "New",
          node: "ai-company",
          user: null,
          pool: null,
          measure: "gpu_hours",
          limit: 500 * HOUR,
          window: "month",
          policy: "notify",
        },
      ]),
    );
  });

  it("are changed by their version, and say why a change is refused", async () => {
    const refusing: Override = ({ method }) =>
      method === "PATCH" ? aProblem(409, "conflict", "ai-company has a budget 'Training' already. Choose another name.") : undefined;
    const { user } = open("/budgets", { override: refusing });
    await user.click(await screen.findByRole("button", { name: "Change Training" }));
    const dialog = within(await screen.findByRole("dialog"));
    expect(dialog.getByRole("textbox", { name: "Limit in GPU-hours" })).toHaveValue("50000");
    await user.click(dialog.getByRole("button", { name: "Save" }));
    expect(await dialog.findByRole("alert")).toHaveTextContent("Choose another name.");
  });

  it("are removed after a question", async () => {
    const seen: string[] = [];
    const removing: Override = ({ method, path }) => {
      if (method !== "DELETE") return undefined;
      seen.push(path);
      return { status: 204, body: null };
    };
    const { user } = open("/budgets", { override: removing });
    await user.click(await screen.findByRole("button", { name: "Remove Training" }));
    await user.click(within(await screen.findByRole("dialog")).getByRole("button", { name: "Remove" }));
    await waitFor(() => expect(seen).toHaveLength(1));
  });
});

describe("caps for users", () => {
  it("are listed, and those of the reader's teams can be changed and removed", async () => {
    const sent: unknown[] = [];
    const noting: Override = ({ path, method, body }) => {
      if (method !== "GET" && path.includes("/user-caps")) sent.push([method, body]);
      return undefined;
    };
    const { user } = open("/budgets", { override: noting });
    const card = within(await screen.findByRole("region", { name: "Caps for users" }));
    const rows = within(await card.findByRole("table", { name: "Caps for users" })).getAllByRole("row").slice(1);
    expect(rows[0]).toHaveTextContent("Each userai-company/research/nlp · all pools32");
    expect(rows[1]).toHaveTextContent("bobai-company/research/nlp · h100no cap");
    expect(within(rows[1] as HTMLElement).queryByRole("button")).toBeNull();
    await user.click(card.getByRole("button", { name: "Change the cap of each user in ai-company/research/nlp" }));
    const dialog = within(await screen.findByRole("dialog"));
    const most = dialog.getByRole("textbox", { name: "GPUs at once" });
    await user.clear(most);
    await user.type(most, "none");
    await user.click(dialog.getByRole("button", { name: "Save" }));
    expect(dialog.getByText("Give a number of GPUs, such as 8; for one user also none.")).toBeInTheDocument();
    expect(await accessibilityFaults(document.body)).toEqual([]);
    await user.clear(most);
    await user.type(most, "4.5");
    await user.click(dialog.getByRole("button", { name: "Save" }));
    await waitFor(() => expect(sent).toEqual([["PATCH", { cap_mgpu: 4_500 }]]));
  });

  it("are made for one person", async () => {
    const sent: unknown[] = [];
    const noting: Override = ({ path, method, body }) => {
      if (method === "POST" && path.endsWith("/user-caps")) sent.push(body);
      return undefined;
    };
    const { user } = open("/budgets", { override: noting });
    await user.click(await screen.findByRole("button", { name: "New cap…" }));
    const dialog = within(await screen.findByRole("dialog"));
    await user.type(dialog.getByRole("textbox", { name: "User" }), "bob");
    await user.type(dialog.getByRole("textbox", { name: "GPUs at once" }), "none");
    expect(dialog.getByText(/^tidegate caps set none --team .* --user bob$/)).toBeInTheDocument();
    await user.click(dialog.getByRole("button", { name: "Set cap" }));
    await waitFor(() => expect(sent).toMatchObject([{ user: "bob", pool: null, cap_mgpu: null }]));
  });
});

describe("default budgets of new teams", () => {
  const noting = (sent: unknown[]): Override => ({ path, method, body }) => {
    if (method !== "GET" && path.includes("/budget-defaults")) sent.push([method, body]);
    return undefined;
  };

  it("are listed, and those that the reader sets can be changed and removed", async () => {
    const sent: unknown[] = [];
    const { user } = open("/budgets", { override: noting(sent) });
    const card = within(await screen.findByRole("region", { name: "Default budgets of new teams" }));
    const rows = within(await card.findByRole("table", { name: "Default budgets of new teams" })).getAllByRole("row").slice(1);
    expect(rows[0]).toHaveTextContent("ai-company/researchstart of …5,000.0 GPU-hoursmonthstop starts");
    expect(rows[1]).toHaveTextContent("€2,500.0030 daysnotify");
    expect(within(rows[1] as HTMLElement).queryByRole("button")).toBeNull();
    await user.click(card.getByRole("button", { name: "Change the default of ai-company/research" }));
    const dialog = within(await screen.findByRole("dialog"));
    const limit = dialog.getByRole("textbox", { name: "Limit in GPU-hours" });
    await user.clear(limit);
    await user.type(limit, "12.5");
    expect(await accessibilityFaults(document.body)).toEqual([]);
    await user.click(dialog.getByRole("button", { name: "Save" }));
    await waitFor(() =>
      expect(sent).toEqual([
        ["PATCH", { name: "start", limit: 12.5 * HOUR, window: "month", policy: "stop_starts" }],
      ]),
    );
    await user.click(await card.findByRole("button", { name: "Remove the default of ai-company/research" }));
    await user.click(within(await screen.findByRole("dialog")).getByRole("button", { name: "Remove" }));
    await waitFor(() => expect(sent).toHaveLength(2));
  });

  // Planted: teams offered, too.
  it("are made for a node above teams", async () => {
    const sent: unknown[] = [];
    const { user } = open("/budgets", { override: noting(sent) });
    await user.click(await screen.findByRole("button", { name: "New default…" }));
    const dialog = within(await screen.findByRole("dialog"));
    await user.click(dialog.getByRole("combobox", { name: "Node" }));
    const department = await screen.findByRole("option", { name: "ai-company/research" });
    expect(screen.queryByRole("option", { name: "ai-company/research/nlp" })).toBeNull();
    await user.click(department);
    await user.type(dialog.getByRole("textbox", { name: "Limit in GPU-hours" }), "7");
    expect(dialog.getByText(/^tidegate budgets default set ai-company\/research --in gpu_hours --limit 7 /)).toBeInTheDocument();
    await user.click(dialog.getByRole("button", { name: "Set default" }));
    await waitFor(() =>
      expect(sent).toMatchObject([["POST", { node: "ai-company/research", measure: "gpu_hours", limit: 7 * HOUR }]]),
    );
  });
});
