/** The second factors of the company's people, and the policy that requires them. */
import type { SecondFactors, Session } from "../src/api/types";
import { iso, uuid } from "./company.ts";
import { aProblem, type MockAnswer, type MockRequest } from "./http.ts";

export const RECOVERY_CODES = ["7kqe-h2wd-x5nb-mjrt", "a3vp-6cyf-o4gz-tuse", "p2dm-bq7x-5wlk-ynjh", "q5ht-cwz3-e6rv-2okd"];
const QR =
  "data:image/svg+xml;base64," +
  btoa('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 10 10"><path d="M1 1h3v3h-3zM6 1h3v3h-3zM1 6h3v3h-3zM6 6h1v1h-1zM8 8h1v1h-1z"/></svg>');

export function someFactors(change: Partial<SecondFactors> = {}): SecondFactors {
  return {
    user: "ai-company/ana",
    authenticator_app: { id: uuid(931), created_at: iso(Date.now() - 40 * 86_400_000), last_used_at: iso(Date.now() - 3_600_000) },
    security_keys: [
      { id: uuid(932), name: "Blue key", created_at: iso(Date.now() - 9 * 86_400_000), last_used_at: null },
    ],
    recovery_codes_left: 8,
    can_enrol: true,
    is_required: false,
    ...change,
  };
}

/** Shows, adds and removes my factor; a code of zeros and a wrong word are refused. */
export function secondFactors(company: { factors: SecondFactors; session: Session | null }, request: MockRequest): MockAnswer {
  const { method, path, query, body } = request;
  const user = query.get("user");
  if (method === "GET") return { status: 200, body: user === null ? company.factors : someFactors({ user }) };
  const { code, proof } = (body ?? {}) as { code?: string; proof?: string };
  if (code === "000000") return refused("code", "The code is wrong. Enter the code that the app shows now.");
  if (proof === "wrong") return refused("proof", "That is neither your password nor the present code.");
  if (path.endsWith("/authenticator"))
    return { status: 200, body: { key: "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP", address: "otpauth://totp/ana", picture: QR } };
  if (path.endsWith("/remove")) {
    const keys = company.factors.security_keys.filter(({ id }) => !path.includes(id));
    company.factors =
      keys.length < company.factors.security_keys.length
        ? { ...company.factors, security_keys: keys }
        : { ...company.factors, authenticator_app: null };
    return { status: 204 };
  }
  company.factors = { ...company.factors, authenticator_app: someFactors().authenticator_app, recovery_codes_left: 10 };
  if (company.session) company.session = { ...company.session, user: { ...company.session.user, must_add_second_factor: false } };
  return { status: 200, body: { recovery_codes: RECOVERY_CODES } };
}

/** Shows the policy, and answers a change without remembering it. */
export function signInPolicy({ method, body }: MockRequest): MockAnswer {
  return { status: 200, body: { requires_second_factor: false, version: 2, ...(method === "PUT" && typeof body === "object" ? body : {}) } };
}

function refused(field: string, detail: string): MockAnswer {
  return aProblem(400, "invalid_request", detail, { errors: [{ pointer: `/${field}`, detail: "is wrong", code: "invalid" }] });
}
