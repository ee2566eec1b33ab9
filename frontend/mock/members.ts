/** The members of nlp as drawn: five people, two service accounts, and those above them. */
import type { Invitation, Member, MemberTotals, Role, RoleGrant, SentInvitation } from "../src/api/types";
import { GPU, iso, TREE, uuid } from "./company.ts";
import { page, type MockAnswer, type MockRequest } from "./http.ts";

const DAY_MS = 86_400_000;
const HOUR_MGPU_S = 3_600 * GPU;
const NLP = "ai-company/research/nlp";

type RoleName = RoleGrant["role"];

export function theRoles(): Role[] {
  return [
    {
      role: "platform_admin",
      sentence: "Administers the installation: every organization, cluster and setting.",
      permissions: ["manage_clusters"],
    },
    {
      role: "team_lead",
      sentence: "Leads a team: manages its people, quota and jobs, and reads its costs.",
      permissions: ["manage_members", "view_tree"],
    },
    { role: "researcher", sentence: "Submits jobs, and sees and manages the own ones.", permissions: ["view_tree", "submit_jobs"] },
    { role: "auditor", sentence: "Reads jobs without their scripts and logs, costs, and the audit log.", permissions: ["view_audit"] },
  ];
}

function aRole(n: number, login: string, role: RoleName, node: string, { expiresInDays, group = "" }: Drawn): Member["roles"][number] {
  return {
    id: uuid(4000 + n),
    user: login,
    role,
    node,
    node_id: TREE.find(({ path }) => path === node)?.id ?? uuid(0),
    granted_by: "olga@ai-company",
    group,
    created_at: iso(Date.now() - 90 * DAY_MS),
    expires_at: expiresInDays === undefined ? null : iso(Date.now() + expiresInDays * DAY_MS),
    version: 1,
    may_change: node === NLP,
  };
}

interface Drawn {
  role?: RoleName;
  node?: string;
  /** In use: guaranteed, borrowed, cap; in GPUs. */
  gpus?: [number, number, number | null];
  hours?: number;
  activeMs?: number | null;
  expiresInDays?: number;
  /** The group of the identity provider that gives the role. */
  group?: string;
  isService?: boolean;
}

function aMember(n: number, username: string, drawn: Drawn): Member {
  const { role = "researcher", node = NLP, gpus, hours = 0, activeMs = 60_000, isService = false } = drawn;
  const login = `${username}@ai-company`;
  return {
    user: {
      id: uuid(4100 + n),
      login,
      username,
      name: username,
      kind: isService ? "service" : "person",
      organization: "ai-company",
      email: isService ? "" : `${username}@ai-company.example`,
      is_active: true,
      must_change_password: false,
      created_at: iso(Date.now() - 200 * DAY_MS),
    },
    source: node === NLP ? "here" : "above",
    roles: [aRole(n, login, role, node, drawn)],
    use:
      gpus === undefined
        ? []
        : [
            {
              pool: "h100",
              device: "gpu",
              guaranteed_mgpu: gpus[0] * GPU,
              borrowed_mgpu: gpus[1] * GPU,
              cap_mgpu: gpus[2] === null ? null : gpus[2] * GPU,
            },
          ],
    month_mgpu_s: hours * HOUR_MGPU_S,
    last_active_at: activeMs === null ? null : iso(Date.now() - activeMs),
    tokens: isService
      ? [
          {
            id: uuid(4200 + n),
            user: login,
            made_by: "leo@ai-company",
            name: "ci-main",
            prefix: "tdg_9fK2",
            scopes: ["jobs"],
            created_at: iso(Date.now() - 60 * DAY_MS),
            expires_at: iso(Date.now() + 5 * DAY_MS),
            last_used_at: iso(Date.now() - 180_000),
            revoked_at: null,
          },
        ]
      : [],
  };
}

export function theMembers(path: string): Member[] {
  const above = [
    aMember(0, "dora", { role: "department_admin", node: "ai-company/research", activeMs: 1_260_000 }),
    aMember(1, "fiona", { role: "finance", node: "ai-company", activeMs: 10_800_000 }),
    aMember(2, "olga", { role: "organization_admin", node: "ai-company", activeMs: DAY_MS }),
  ];
  if (path !== NLP) return above;
  return [
    aMember(3, "ana", { gpus: [112, 0, 120], hours: 41_280 }),
    aMember(4, "ci-nlp", { role: "service_account", gpus: [16, 0, 16], hours: 3_980, isService: true }),
    aMember(5, "iris", { gpus: [0, 32, 64], hours: 17_120, activeMs: 3_600_000 }),
    aMember(6, "leo", { role: "team_lead", group: "gpu-leads", hours: 1_420, activeMs: 120_000 }),
    aMember(7, "nightly-eval", { role: "service_account", gpus: [16, 0, 24], hours: 2_050, isService: true }),
    aMember(8, "noor", { gpus: [48, 0, 64], hours: 22_640, activeMs: 300_000 }),
    aMember(9, "sam", { gpus: [8, 0, 16], hours: 5_310, activeMs: null, expiresInDays: 3 }),
    ...above,
  ];
}

export function theMemberTotals(path: string): MemberTotals {
  const isNlp = path === NLP;
  return {
    month_start: "2026-11-01T00:00:00Z",
    pools: isNlp
      ? [{ pool: "h100", device: "gpu", people_mgpu: 200 * GPU, service_accounts_mgpu: 32 * GPU, node_mgpu: 232 * GPU }]
      : [],
    people_month_mgpu_s: isNlp ? 87_770 * HOUR_MGPU_S : 0,
    service_accounts_month_mgpu_s: isNlp ? 6_030 * HOUR_MGPU_S : 0,
    node_month_mgpu_s: isNlp ? 93_800 * HOUR_MGPU_S : 0,
    is_equal: true,
  };
}

/** Lists, sends, sends again and withdraws; nothing is kept. */
export function invitations({ method, path, query, body }: MockRequest): MockAnswer {
  const paul: Invitation = {
    id: uuid(4300),
    node: NLP,
    email: "paul@ai-company.example",
    username: "paul",
    name: "Paul Roy",
    role: "researcher",
    role_expires_at: null,
    invited_by: "leo@ai-company",
    created_at: iso(Date.now() - 5 * DAY_MS),
    expires_at: iso(Date.now() + 2 * DAY_MS),
  };
  if (method === "DELETE") return { status: 204 };
  if (method === "GET") return page([paul], query);
  const sent: SentInvitation = { ...paul, is_mailed: false, link: "/set-password#tdi_exampleOnly" };
  return { status: path.endsWith("/resend") ? 200 : 201, body: { ...sent, ...(body as object) } };
}

/** Grants, changes and revokes; nothing is kept. */
export function roleGrants({ method, body }: MockRequest, id: string | undefined): MockAnswer {
  if (method === "DELETE") return { status: 204 };
  const grant = aRole(20, "bob@ai-company", "researcher", NLP, {});
  return { status: id === undefined ? 201 : 200, body: { ...grant, ...(body as object) } };
}

/** The role of a new service account; answered, but not remembered. */
export function newServiceAccount({ body }: MockRequest, node: string): MockAnswer {
  const { username } = body as { username: string };
  const role: RoleGrant = aRole(90, `${username}@ai-company`, "service_account", node, {});
  return { status: 201, body: role };
}
