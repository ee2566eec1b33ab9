/** The audit log of the mock's company, newest first. */
import type { AuditEvent } from "../src/api/types";

const NLP = "01935000-0000-7000-8000-000000000013";

function anEvent(number: number, change: Partial<AuditEvent>): AuditEvent {
  return {
    id: `01935000-0000-7000-8000-0000000aa${String(number).padStart(3, "0")}`,
    at: `2026-11-21T14:${String(59 - number).padStart(2, "0")}:00Z`,
    actor: "alice@ai-company",
    action: "team_renamed",
    subject: { kind: "team", id: NLP },
    organization: "ai-company",
    node: "ai-company/research/nlp",
    detail: { before: "NLP", after: "Language" },
    request_id: "req-7f3a",
    ...change,
  };
}

export function theAuditEvents(): AuditEvent[] {
  return [
    anEvent(1, {}),
    anEvent(2, { action: "role_granted", subject: { kind: "role_grant", id: NLP }, detail: { user: "bob@ai-company", role: "team_lead" } }),
    anEvent(3, { actor: "bob@ai-company", action: "signed_in", subject: { kind: "user", id: NLP }, node: "ai-company", detail: {} }),
  ];
}
