/** Requests, answers, refusals and pages of the made-up REST API. */
import type { Problem } from "../src/api/types";

export interface MockRequest {
  method: string;
  path: string;
  query: URLSearchParams;
  headers: Record<string, string | undefined>;
  body: unknown;
}

export interface MockAnswer {
  status: number;
  body?: unknown;
  headers?: Record<string, string>;
}

export function aProblem(status: number, code: string, detail: string, data: object = {}): MockAnswer {
  const problem: Problem = { type: "about:blank", title: code.replaceAll("_", " "), status, code, detail, request_id: "req-7f3a", ...data };
  return { status, body: problem };
}

export function page(items: readonly unknown[], query: URLSearchParams): MockAnswer {
  const limit = Number(query.get("limit") ?? 50);
  const from = Number(query.get("cursor") ?? 0);
  const next = new URLSearchParams(query);
  next.set("cursor", String(from + limit));
  return {
    status: 200,
    body: {
      items: items.slice(from, from + limit),
      next: from + limit < items.length ? `/api/v1/list?${next.toString()}` : null,
    },
  };
}
