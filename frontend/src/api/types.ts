/** Short names for the generated schema: the only place that knows how the API calls its shapes. */
import type { components } from "./schema";

type Schemas = components["schemas"];

export type Session = Schemas["Session"];
export type TreeNode = Schemas["TreeNode"];
export type Work = Schemas["Work"];
export type OpenWork = Schemas["OpenWork"];
export type MovePreview = Schemas["MovePreview"];
export type Archiving = Schemas["ArchivingRequest"];
export type NewOrganization = Schemas["NewOrganization"];
export type NewOrganizationRequest = Schemas["OrganizationCreationRequest"];
export type Pool = Schemas["Pool"];
export type Cluster = Schemas["Cluster"];
export type Scheduler = Schemas["Scheduler"];
export type Today = Schemas["Today"];
export type ClusterRequest = Schemas["ClusterCreateRequest"];
export type ClusterKind = Schemas["ClusterKind"];
export type ClusterNode = Schemas["ClusterNode"];
export type NodeRequest = Schemas["NodeRequest"];
export type Placement = Schemas["Placement"];
export type ClusterUser = Schemas["ClusterUser"];
export type QuotaPush = Schemas["QuotaPush"];
export type QuotaPushSummary = Schemas["QuotaPushSummary"];
export type QuotaPushChange = Schemas["QuotaPushChange"];
export type AcceptedDifference = Schemas["AcceptedDifference"];
export type Quota = Schemas["Quota"];
export type QuotaPatch = Schemas["QuotaUpdateRequest"];
export type QuotaChange = Schemas["QuotaChange"];
export type QuotaValues = Schemas["QuotaValues"];
export type PlannedChange = Schemas["PlannedChange"];
export type PlannedEdit = Schemas["PlannedEdit"];
export type PlannedStatus = PlannedChange["status"];
export type PlannedChangeRequest = Schemas["PlannedChangeCreateRequest"];
export type PlannedEditRequest = Schemas["PlannedEditRequestRequest"];
export type QuotaPreview = Schemas["QuotaPreview"];
// The schema calls what has a default optional; answers have all of it.
export type Policy = Required<Schemas["Policy"]>;
export type InstallationPolicy = Required<Schemas["InstallationPolicy"]>;
export type PriorityClass = Required<Schemas["PriorityClass"]>;
export type TimeLimit = Schemas["TimeLimit"];
export type Cycle = Schemas["Cycle"];
export type ReplayedCycle = Schemas["ReplayedCycle"];
export type Decision = Schemas["Decision"];
export type AuditEvent = Schemas["AuditEvent"];
export type DecisionLine = Schemas["DecisionLine"];
export type Difference = ReplayedCycle["differences"][number];
export type NamedJob = Schemas["NamedJob"];
export type Job = Schemas["Job"];
export type JobDetail = Schemas["JobDetail"];
export type JobReason = Schemas["JobReason"];
export type JobArray = Schemas["JobArray"];
export type JobState = Job["state"];
export type JobRequest = Schemas["JobRequestRequest"];
export type JobPlan = Schemas["JobPlan"];
export type JobAlternatives = Schemas["JobAlternatives"];
export type SbatchNote = Schemas["Note"];
export type Attempt = Schemas["Attempt"];
export type Beneficiary = Schemas["MadeRoomFor"];
export type Explanation = Schemas["Explanation"];
export type HistoryEvent = Schemas["JobEvent"];
export type LogChunk = Schemas["JobLog"];
export type LogSummary = Schemas["JobLogSummary"];
export type Quarantine = Schemas["Quarantine"];
export type Chargeback = Schemas["ChargebackReport"];
export type ChargebackRow = Schemas["ChargebackRow"];
export type ChargebackJob = Schemas["ChargebackJob"];
export type Token = Schemas["AccessToken"];
export type User = Schemas["User"];
export type PasswordLink = Schemas["PasswordLink"];
export type NewToken = Schemas["NewAccessToken"];
export type TokenScope = Token["scopes"][number];
export type Problem = Schemas["Problem"] & Record<string, unknown>;

export interface Page<T> {
  items: T[];
  next: string | null;
}
