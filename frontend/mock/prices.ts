/** The company's rate card: past, current and scheduled prices, and their comparison. */
import type { PriceComparison, RateCard, RateLine } from "../src/api/types";
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
    change_ppm: 36_408,
    prices: [
      {
        pool: "h100",
        device: "gpu",
        usage_class: "guaranteed",
        first_nano: 2 * NANO,
        second_nano: 2_100_000_000,
        change_ppm: 50_000,
        mgpu_s: 454_400 * 3_600_000,
        first_cost_nano: 908_800 * NANO,
        second_cost_nano: 954_240 * NANO,
      },
      {
        pool: "h100",
        device: "gpu",
        usage_class: "borrowed",
        first_nano: 2.5 * NANO,
        second_nano: 2.5 * NANO,
        change_ppm: 0,
        mgpu_s: 135_700 * 3_600_000,
        first_cost_nano: 339_250 * NANO,
        second_cost_nano: 339_250 * NANO,
      },
    ],
  };
}

/** Lists and creates cards; changes of their lines are kept in `cards`. */
export function rateCards(cards: RateCard[], { method, path, query, body }: MockRequest): MockAnswer {
  const [id, action, lineId] = path.replace(/^.*rate-cards\/?/, "").split("/");
  if (id === undefined || id === "") {
    if (method === "GET") return { status: 200, body: { items: cards, next: null } };
    const { currency, organization } = body as { currency: string; organization: string };
    cards.push(aRateCard({ currency, organization, lines: [] }));
    return { status: 201, body: cards.at(-1) };
  }
  const card = cards.find((each) => each.id === id);
  if (card === undefined) return aProblem(404, "not_found", "It does not exist, or you may not see it.");
  if (action === "comparison") {
    return { status: 200, body: aPriceComparison(query.get("first") ?? "", query.get("second") ?? "") };
  }
  if (method === "POST") {
    const given = body as Omit<Partial<RateLine>, "start"> & { start: string | null };
    const line = aRateLine(100 + card.lines.length, { ...given, start: given.start ?? iso(Date.now()), added_at: iso(Date.now()) });
    card.lines = [...card.lines, line];
    return { status: 201, body: line };
  }
  const line = card.lines.find((each) => each.id === lineId);
  if (line === undefined) return aProblem(404, "not_found", "It does not exist, or you may not see it.");
  if (method === "DELETE") {
    card.lines = card.lines.filter((each) => each !== line);
    return { status: 204, body: undefined };
  }
  line.end = (body as { end: string | null }).end ?? iso(Date.now());
  return { status: 200, body: line };
}
