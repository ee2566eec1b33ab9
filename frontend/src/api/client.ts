/** The one way to the REST API: typed paths, CSRF, a time-out, and problems as `ApiError`. */
import createClient from "openapi-fetch";

import type { paths } from "./schema";
import type { Problem, WaitingWrite } from "./types";

const TIMEOUT_MS = 30_000;
const SAFE_METHODS = new Set(["GET", "HEAD", "OPTIONS"]);

/** A refusal, or no answer at all (`status` 0). `problem.detail` is a sentence for a person. */
export class ApiError extends Error {
  readonly status: number;
  readonly problem: Problem;

  constructor(problem: Problem) {
    super(problem.detail);
    this.name = "ApiError";
    this.status = problem.status;
    this.problem = problem;
  }

  /** What the API says about each field, by the last part of its JSON pointer ("/gpus" -> "gpus"). */
  get fieldErrors(): Record<string, string> {
    const found: Record<string, string> = {};
    for (const error of this.problem.errors ?? []) {
      const field = error.pointer.replace(/^#/, "").split("/").filter(Boolean)[0] ?? "";
      found[field] = field in found ? `${found[field] ?? ""} ${error.detail}` : error.detail;
    }
    return found;
  }
}

/** A change that a second person decides. It was stored as a request, and nothing has changed yet. */
export class WaitsForSecondPerson extends ApiError {
  readonly request: string;

  constructor({ request, detail }: WaitingWrite) {
    super({
      type: "about:blank",
      request_id: "",
      title: "Waits for a second person",
      status: 202,
      code: "second_person_needed",
      detail,
    });
    this.name = "WaitsForSecondPerson";
    this.request = request;
  }
}

let csrfFromSession = "";

/** Remember the token that the session answer carried, for servers that hide the cookie. */
export function rememberCsrfToken(token: string): void {
  csrfFromSession = token;
}

function csrfToken(): string {
  const cookie = document.cookie
    .split("; ")
    .find((part) => part.startsWith("csrftoken="))
    ?.slice("csrftoken=".length);
  return cookie ? decodeURIComponent(cookie) : csrfFromSession;
}

async function fetchWithLimit(request: Request): Promise<Response> {
  const signal = AbortSignal.any([request.signal, AbortSignal.timeout(TIMEOUT_MS)]);
  try {
    return await globalThis.fetch(new Request(request, { signal }));
  } catch (error) {
    if (request.signal.aborted) throw error;
    const isTimeout = error instanceof DOMException && error.name === "TimeoutError";
    throw new ApiError({
      type: "about:blank",
      request_id: "",
      title: "No answer",
      status: 0,
      code: isTimeout ? "timeout" : "unreachable",
      detail: isTimeout
        ? `Tidegate did not answer within ${TIMEOUT_MS / 1000} s. Try again.`
        : "Tidegate cannot be reached from this browser. Check the network, then try again.",
    });
  }
}

export const client = createClient<paths>({
  baseUrl: globalThis.location.origin,
  fetch: fetchWithLimit,
  credentials: "same-origin",
  // Lists as the API reads them: `state=queued,running`.
  querySerializer: { array: { style: "form", explode: false } },
});

client.use({
  onRequest({ request }) {
    request.headers.set("Accept", "application/json");
    if (!SAFE_METHODS.has(request.method)) request.headers.set("X-CSRFToken", csrfToken());
    return request;
  },
});

function toProblem(error: unknown, response: Response): Problem {
  if (typeof error === "object" && error !== null && "detail" in error) {
    return {
      type: "about:blank",
      request_id: "",
      title: response.statusText,
      code: "error",
      ...(error as object),
      status: response.status,
      detail: String((error).detail),
    };
  }
  return {
    type: "about:blank",
    request_id: "",
    title: response.statusText || "Error",
    status: response.status,
    code: "error",
    detail:
      response.status >= 500
        ? `Tidegate answered with an error (${response.status}). Try again; if it stays, tell your administrator.`
        : `The request was refused (${response.status}).`,
  };
}

/** The answer's body. Throws `ApiError` for every refusal, and `WaitsForSecondPerson`. */
export async function unwrap<T>(
  call: Promise<{ data?: T; error?: unknown; response: Response }>,
): Promise<Exclude<T, WaitingWrite>> {
  const { data, error, response } = await call;
  if (!response.ok) throw new ApiError(toProblem(error, response));
  if (response.status === 202 && isWaiting(data)) throw new WaitsForSecondPerson(data);
  return data as Exclude<T, WaitingWrite>;
}

function isWaiting(data: unknown): data is WaitingWrite {
  return typeof data === "object" && data !== null && "request" in data && "detail" in data;
}

/** The answer's body with its ETag: what a change that is based on it names in If-Match. */
export async function unwrapTagged<T>(
  call: Promise<{ data?: T; error?: unknown; response: Response }>,
): Promise<{ data: Exclude<T, WaitingWrite>; etag: string }> {
  const data = await unwrap(call);
  return { data, etag: (await call).response.headers.get("ETag") ?? "" };
}

/** The cursor inside a list's `next` address, or null on the last page. */
export function nextCursor(next: string | null): string | null {
  if (next === null) return null;
  return new URL(next, globalThis.location.origin).searchParams.get("cursor");
}
