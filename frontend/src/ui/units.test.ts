import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";

import {
  formatDifference,
  formatCountdown,
  formatDuration,
  formatGpuCount,
  formatGpuHours,
  formatGpus,
  formatMoney,
  formatMultiplier,
  formatClock,
  formatRelative,
  formatShare,
  gpusToDecimal,
  parseGpus,
  readTimeLimit,
  percentWords,
} from "./units";

describe("GPUs", () => {
  it.each([
    [1000, "1"],
    [500, "0.5"],
    [125, "0.125"],
    [1_000_000, "1,000"],
    [0, "0"],
    [-300_000, "−300"],
    [1_234_567_500, "1,234,567.5"],
  ])("%d mGPU reads %s", (mgpu, text) => expect(formatGpus(mgpu)).toBe(text));

  it("says GPU for one and GPUs for all else", () => {
    expect([1000, 500, 0, 8000].map((mgpu) => formatGpuCount(mgpu))).toEqual(["1 GPU", "0.5 GPUs", "0 GPUs", "8 GPUs"]);
  });

  it.each([
    ["8", 8000],
    [" 0.5 ", 500],
    ["1,000", 1_000_000],
    ["0.125", 125],
    ["0.1234", null],
    ["-1", null],
    ["1e3", null],
    ["1,00", null],
    ["", null],
    ["٨", null],
  ])("reads %j as %s mGPU", (text, mgpu) => expect(parseGpus(text)).toBe(mgpu));

  it("writes decimals that the API takes", () => {
    expect(gpusToDecimal(1_000_000)).toBe("1000");
    expect(gpusToDecimal(500)).toBe("0.5");
  });
});

describe("differences", () => {
  it("carry their sign, and say where there is none", () => {
    expect([formatDifference(200_000, 220_000, formatGpus), formatDifference(5000, 2500, formatGpus)]).toEqual([
      "+20",
      "\u22122.5",
    ]);
    expect(formatDifference(7, 7, formatGpus)).toBe("no change");
  });
});

describe("GPU-hours and money", () => {
  it("rounds half away from zero at the second decimal", () => {
    expect(formatGpuHours(3_600_000)).toBe("1.00");
    expect(formatGpuHours(18_000)).toBe("0.01");
    expect(formatGpuHours(17_999)).toBe("0.00");
    expect(formatGpuHours(-18_000)).toBe("−0.01");
  });

  it("has no float error where floats have one", () => {
    // 0.1 + 0.2 in nano, and a sum that a double cannot hold to the cent.
    expect(formatMoney(100_000_000 + 200_000_000, "EUR")).toBe("€0.30");
    // Planted: two decimals for each currency.
    expect(formatMoney(1_234_500_000_000, "JPY")).toBe("¥1,235");
    expect(formatMoney(1_234_500_500_000, "KWD")).toBe("KWD 1,234.501");
    expect(formatMoney(1_112_350_005_000_000n, "EUR")).toBe("€1,112,350.01");
    expect(formatMoney(9_007_199_254_740_993_000_000_000n, "EUR")).toBe("€9,007,199,254,740,993.00");
  });

  it("marks a JSON number that is too large to be exact", () => {
    expect(formatMoney(2 ** 53, "EUR")).toMatch(/^≈€/);
  });

  it("puts the sign before the currency, and spells currencies without a sign", () => {
    expect(formatMoney(-1_500_000_000, "EUR")).toBe("−€1.50");
    expect(formatMoney(1_500_000_000, "CHF")).toBe("CHF 1.50");
    expect(formatMoney(1_500_000_000, "credits")).toBe("credits 1.50");
  });

  it("shows shares and multipliers", () => {
    expect(formatShare(1, 3)).toBe("33.3 %");
    expect(formatShare(1, 0)).toBe("–");
    expect(formatMultiplier(1_500_000)).toBe("1.5×");
  });
});

it.each([
  ["50.00", "50 %"],
  ["33.33", "33.33 %"],
  ["7.50", "7.5 %"],
  ["100.00", "100 %"],
  ["0.00", "0 %"],
  ["10", "10 %"],
])("%s percent read %s", (percent, text) => expect(percentWords(percent)).toBe(text));

describe("time", () => {
  it.each([
    [0, "0 s"],
    [48, "48 s"],
    [252, "4 min 12 s"],
    [300, "5 min"],
    [259_200, "72 h"],
    [5400, "1 h 30 min"],
    [950_400, "11 d"],
  ])("%d s last %s", (seconds, text) => expect(formatDuration(seconds)).toBe(text));

  it("counts down to 0:00 and stays there", () => {
    expect([252, 18.2, 3730, 0, -5].map(formatCountdown)).toEqual(["4:12", "0:19", "1:02:10", "0:00", "0:00"]);
  });

  it("says how long ago, and how long until", () => {
    const now = new Date("2026-11-21T14:03:58Z");
    const at = (text: string) => formatRelative(new Date(text), now);
    expect(at("2026-11-21T14:03:10Z")).toBe("48 s ago");
    expect(at("2026-11-21T14:08:10Z")).toBe("in 4 min");
    expect(at("2026-11-21T14:03:58Z")).toBe("now");
    expect(at("2026-11-18T14:03:10Z")).toBe("3 d ago");
  });

  it.each([
    [59, "in 59 s"],
    [299, "in 5 min"],
    [21_420, "in 5 h 57 min"],
    [86_399, "in 24 h"],
    [129_599, "in 36 h"],
    [604_790, "in 7 d"],
  ])("%d s to come are %s", (seconds, text) => {
    const now = new Date("2026-11-21T14:03:58Z");
    expect(formatRelative(new Date(now.getTime() + seconds * 1000), now)).toBe(text);
  });

  it("gives a clock time of another day its date", () => {
    const now = new Date(2026, 10, 21, 23, 50, 0);
    expect(formatClock(new Date(2026, 10, 21, 23, 59, 5), now)).toBe("23:59:05");
    expect(formatClock(new Date(2026, 10, 22, 0, 0, 5), now)).toBe("22 Nov 2026, 00:00:05");
  });

  // The same file is read by the tests of the command line and of the server.
  const limits = JSON.parse(readFileSync("../tests/recordings/time_limits.json", "utf-8")) as {
    read: Record<string, number>;
    refused: Record<string, string>;
  };

  it.each(Object.entries(limits.read))("reads the time limit %j as %s s", (text, seconds) =>
    expect(readTimeLimit(text)).toEqual({ seconds }),
  );

  it.each(Object.entries(limits.refused))("refuses the time limit %j", (text, error) =>
    expect(readTimeLimit(text)).toEqual({ error }),
  );
});
