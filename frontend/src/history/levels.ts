import type { HistoryLevels, HistorySeries, UseHistory } from "../api/types";

/** Figures that charts and tables show of one step or of a whole period, in milli-GPU-seconds. */
export interface Levels {
  used: number;
  within: number;
  above: number;
  lent: number;
  idle: number;
  guarantee: number;
  waiting: number;
}

/** Above is the use beyond the node's own guarantee; idle is what of the guarantee nobody used. */
export function levelsOf(sums: HistoryLevels): Levels {
  const used = sums.guaranteed_mgpu_s + sums.borrowed_mgpu_s + sums.unpaid_mgpu_s + sums.fault_mgpu_s;
  return {
    used,
    within: sums.within_mgpu_s,
    above: used - sums.within_mgpu_s,
    lent: sums.lent_mgpu_s,
    idle: sums.guarantee_mgpu_s - sums.within_mgpu_s - sums.lent_mgpu_s,
    guarantee: sums.guarantee_mgpu_s,
    waiting: sums.waiting_mgpu_s,
  };
}

export interface StepLevels {
  start: string;
  end: string;
  seconds: number;
  /** Averages of the step in milli-GPU. */
  levels: Levels;
}

/** The averages of each step of a series. */
export function stepsOf({ steps }: HistorySeries, edges: UseHistory["edges"]): StepLevels[] {
  return steps.within_mgpu_s.map((_, at) => {
    const [start = "", end = ""] = [edges[at], edges[at + 1]];
    const seconds = (Date.parse(end) - Date.parse(start)) / 1000;
    const names = Object.keys(steps) as (keyof HistoryLevels)[];
    const sums = Object.fromEntries(names.map((name) => [name, steps[name][at] ?? 0])) as Record<keyof HistoryLevels, number>;
    const of = levelsOf(sums);
    const levels: Levels = {
      used: of.used / seconds,
      within: of.within / seconds,
      above: of.above / seconds,
      lent: of.lent / seconds,
      idle: of.idle / seconds,
      guarantee: of.guarantee / seconds,
      waiting: of.waiting / seconds,
    };
    return { start, end, seconds, levels };
  });
}

/** Round tops of a scale, for one power of ten. */
const ROUND = [1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10];

/** A round top of a scale on which all of these steps fit, in milli-GPU; at least a GPU. */
export function topOf(series: readonly StepLevels[][]): number {
  const most = series
    .flat()
    .reduce((top, { levels }) => Math.max(top, levels.guarantee + levels.above, levels.waiting), 1000);
  const power = 10 ** Math.floor(Math.log10(most));
  return power * (ROUND.find((each) => each * power >= most) ?? 10);
}
