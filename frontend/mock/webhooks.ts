/** Webhooks of the mock's company, with the messages to them. */
import type { Webhook, WebhookDelivery, WebhookWithSecret } from "../src/api/types";
import { page, type MockAnswer, type MockRequest } from "./http.ts";

const MINUTE_MS = 60_000;
const ago = (minutes: number) => new Date(Date.now() - minutes * MINUTE_MS).toISOString();

function aWebhook(number: number, change: Partial<Webhook>): Webhook {
  return {
    id: `01935000-0000-7000-8000-00000000e${String(number).padStart(3, "0")}`,
    node: "ai-company/research/nlp",
    name: "Channel of nlp",
    kind: "slack",
    address: "https://hooks.slack.example/…x7Qz",
    events: ["job_failed", "job_preempting", "team_preempted"],
    created_at: ago(9_000),
    failing_since: null,
    disabled_at: null,
    disabled_reason: "",
    old_secret_until: null,
    version: 1,
    ...change,
  };
}

export const theWebhooks = (): Webhook[] => [
  aWebhook(1, {}),
  aWebhook(2, {
    name: "On-call of the platform",
    kind: "signed",
    node: "ai-company",
    address: "https://events.ai-company.example/…/v1",
    failing_since: ago(42),
  }),
  aWebhook(3, {
    name: "My own messages",
    kind: "teams",
    node: null,
    address: "https://prod-12.workflows.example:8443/…sig4",
    disabled_at: ago(300),
    disabled_reason: "No delivery succeeded for 24 hours.",
  }),
];

function aDelivery(number: number, change: Partial<WebhookDelivery>): WebhookDelivery {
  return {
    id: `01935000-0000-7000-8000-0000000de${String(number).padStart(3, "0")}`,
    event: "job_preempting",
    sentence: "llm-finetune is being preempted. Save its work before it stops.",
    state: "sent",
    attempts: 1,
    status_code: 200,
    response_excerpt: "ok",
    duration_ms: 212,
    error: "",
    created_at: ago(4),
    next_at: null,
    ended_at: ago(4),
    ...change,
  };
}

const theDeliveries = (): WebhookDelivery[] => [
  aDelivery(1, {}),
  aDelivery(2, {
    event: "job_failed",
    sentence: "llm-finetune failed with an exit code other than 0.",
    state: "pending",
    attempts: 3,
    status_code: 503,
    response_excerpt: "<html><body>Service temporarily unavailable, please come back later</body></html>",
    duration_ms: 5_012,
    error: "The server answered 503.",
    next_at: ago(-2),
    ended_at: null,
  }),
];

/** Lists, makes and changes webhooks; nothing is kept. */
export function webhooks({ method, query, body }: MockRequest, id: string | undefined, action: string | undefined): MockAnswer {
  const [first] = theWebhooks();
  const found = { ...first, ...theWebhooks().find((each) => each.id === id) } as Webhook;
  if (action === "deliveries") return page(theDeliveries(), query);
  if (action === "test" || action === "replay") return { status: 202, body: aDelivery(9, { state: "pending" }) };
  if (action === "secret") return { status: 200, body: { ...found, secret: "whsec_bmV3" } satisfies WebhookWithSecret };
  if (method === "DELETE") return { status: 204 };
  if (method === "PATCH") return { status: 200, body: found };
  if (method === "POST") {
    const { kind } = body as Webhook;
    return { status: 201, body: { ...found, kind, secret: kind === "signed" ? "whsec_c2VjcmV0" : "" } satisfies WebhookWithSecret };
  }
  return page(theWebhooks(), query);
}
