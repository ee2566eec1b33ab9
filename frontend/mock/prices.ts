/** The company's rate card: past, current and scheduled prices, and their comparison. */
import type { PoolTerms, PriceComparison, RateCard, RateLine } from "../src/api/types";
import { iso, ORGANIZATION, uuid } from "./company.ts";
import { aProblem, type MockAnswer, type MockRequest } from "./http.ts";

const NANO = 1_000_000_000;
const DAY_MS = 86_400_000;

/** A moment so many days from now. */
const days = (count: number) => iso(Math.floor(Date.now() / DAY_MS + count) * DAY_MS);

export function aRateLine(number: number, change: Partial<RateLine> = {}): RateLine {
  return {
    id: uuid(0x7000 + number),
    pool: "h100",
    device: "gpu",
    usage_class: "guaranteed",
    price_nano: 2 * NANO,
    start: days(-200),
    end: null,
    added_at: days(-210),
    added_by: "fin@ai-company",
    is_correction: false,
    ...change,
  };
}

export function someTerms(number: number, change: Partial<PoolTerms> = {}): PoolTerms {
  return {
    id: uuid(0x7100 + number),
    pool: "h100",
    device: "gpu",
    mode: "pay_per_use",
    guaranteed_ppm: 1_000_000,
    borrowed_ppm: 1_000_000,
    unpaid_ppm: 1_000_000,
    minimum_s: 0,
    increment_s: 1,
    start: days(-200),
    end: null,
    added_at: days(-210),
    added_by: "fin@ai-company",
    is_correction: false,
    ...change,
  };
}

export function aRateCard(change: Partial<RateCard> = {}): RateCard {
  return {
    id: uuid(0x7000),
    organization: ORGANIZATION,
    currency: "EUR",
    time_zone: "UTC",
    lines: [
      aRateLine(4, { usage_class: "borrowed", price_nano: 2.5 * NANO, is_correction: true, start: days(-100), added_at: days(-20) }),
      aRateLine(1, { price_nano: 1_850_000_000, start: days(-300), end: days(-200) }),
      aRateLine(2, { end: days(30) }),
      aRateLine(3, { price_nano: 2_100_000_000, start: days(30) }),
      aRateLine(5, { usage_class: "unpaid", price_nano: 600_000_000, start: days(-100), end: days(90) }),
    ],
    terms: [
      someTerms(4, { pool: "a100-80g", mode: "showback" }),
      someTerms(1, { start: days(-300), end: days(-200), mode: "showback" }),
      someTerms(2, { end: days(30), unpaid_ppm: 300_000, minimum_s: 300, increment_s: 60, is_correction: true, added_at: days(-20) }),
      someTerms(3, { mode: "commitment", start: days(30), unpaid_ppm: 300_000 }),
    ],
    can_edit: true,
    ...change,
  };
}

export function aPriceComparison(first: string, second: string): PriceComparison {
  return {
    organization: ORGANIZATION,
    currency: "EUR",
    first,
    second,
    start: "2026-10-01T00:00:00Z",
    end: "2026-11-01T00:00:00Z",
    is_whole: true,
    charged_cost_nano: 1_248_050 * NANO,
    first_cost_nano: 1_248_050 * NANO,
    second_cost_nano: 1_293_490 * NANO,
    first_showback_nano: 0,
    second_showback_nano: 5 * NANO,
    change_ppm: 36_408,
    teams: [
      {
        team: `${ORGANIZATION}/research/nlp`,
        first_cost_nano: 908_800 * NANO,
        second_cost_nano: 954_240 * NANO,
        first_showback_nano: 0,
        second_showback_nano: 5 * NANO,
        change_ppm: 50_000,
      },
    ],
    prices: [
      {
        pool: "h100",
        device: "gpu",
        usage_class: "guaranteed",
        change_ppm: 50_000,
        mgpu_s: 454_400 * 3_600_000,
        first: { mode: "pay_per_use", price_nano: 2 * NANO, multiplier_ppm: 1_000_000, cost_nano: 908_800 * NANO },
        second: { mode: "pay_per_use", price_nano: 2_100_000_000, multiplier_ppm: 1_050_000, cost_nano: 954_240 * NANO },
      },
      {
        pool: "h100",
        device: "gpu",
        usage_class: "borrowed",
        change_ppm: 0,
        mgpu_s: 135_700 * 3_600_000,
        first: { mode: "pay_per_use", price_nano: 2.5 * NANO, multiplier_ppm: 1_000_000, cost_nano: 339_250 * NANO },
        second: { mode: "showback", price_nano: 2.5 * NANO, multiplier_ppm: 1_000_000, cost_nano: 339_250 * NANO },
      },
    ],
  };
}

/** Lists and creates cards; changes of their prices and terms are kept in `cards`. */
export function rateCards(cards: RateCard[], { method, path, query, body }: MockRequest): MockAnswer {
  const [id, action, ruleId] = path.replace(/^.*rate-cards\/?/, "").split("/");
  if (id === undefined || id === "") {
    if (method === "GET") return { status: 200, body: { items: cards, next: null } };
    const { currency, organization } = body as { currency: string; organization: string };
    cards.push(aRateCard({ currency, organization, lines: [], terms: [] }));
    return { status: 201, body: cards.at(-1) };
  }
  const card = cards.find((each) => each.id === id);
  if (card === undefined) return aProblem(404, "not_found", "It does not exist, or you may not see it.");
  if (action === "comparison") {
    return { status: 200, body: aPriceComparison(query.get("first") ?? "", query.get("second") ?? "") };
  }
  const rules: (RateLine | PoolTerms)[] = action === "terms" ? card.terms : card.lines;
  if (method === "POST") {
    const given = body as Omit<Partial<RateLine & PoolTerms>, "start"> & { start: string | null };
    const now = { start: given.start ?? iso(Date.now()), added_at: iso(Date.now()) };
    const made = 100 + rules.length;
    const rule = action === "terms" ? someTerms(made, { ...given, ...now }) : aRateLine(made, { ...given, ...now });
    rules.push(rule);
    return { status: 201, body: rule };
  }
  const rule = rules.find((each) => each.id === ruleId);
  if (rule === undefined) return aProblem(404, "not_found", "It does not exist, or you may not see it.");
  if (method === "DELETE") {
    rules.splice(rules.indexOf(rule), 1);
    return { status: 204, body: undefined };
  }
  rule.end = (body as { end: string | null }).end ?? iso(Date.now());
  return { status: 200, body: rule };
}
