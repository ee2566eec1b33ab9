/** Short names for the generated schema: the only place that knows how the API calls its shapes. */
import type { components } from "./schema";

type Schemas = components["schemas"];

export type Session = Schemas["Session"];
export type TreeNode = Schemas["TreeNode"];
export type Pool = Schemas["Pool"];
export type Cluster = Schemas["Cluster"];
export type ClusterRequest = Schemas["ClusterCreateRequest"];
export type ClusterNode = Schemas["ClusterNode"];
export type NodeRequest = Schemas["NodeRequest"];
export type Placement = Schemas["Placement"];
export type ClusterUser = Schemas["ClusterUser"];
export type QuotaPush = Schemas["QuotaPush"];
export type QuotaPushSummary = Schemas["QuotaPushSummary"];
export type QuotaPushChange = Schemas["QuotaPushChange"];
export type Quota = Schemas["Quota"];
export type QuotaPatch = Schemas["QuotaUpdateRequest"];
export type QuotaChange = Schemas["QuotaChange"];
export type PriorityClass = Schemas["PriorityClass"];
export type Job = Schemas["Job"];
export type JobDetail = Schemas["JobDetail"];
export type JobArray = Schemas["JobArray"];
export type JobState = Job["state"];
export type JobRequest = Schemas["JobRequestRequest"];
export type JobPlan = Schemas["JobPlan"];
export type SbatchNote = Schemas["Note"];
export type Attempt = Schemas["Attempt"];
export type Explanation = Schemas["Explanation"];
export type HistoryEvent = Schemas["JobEvent"];
export type LogChunk = Schemas["JobLog"];
export type Chargeback = Schemas["ChargebackReport"];
export type ChargebackRow = Schemas["ChargebackRow"];
export type ChargebackJob = Schemas["ChargebackJob"];
export type Token = Schemas["AccessToken"];
export type NewToken = Schemas["NewAccessToken"];
export type TokenScope = Token["scopes"][number];
export type Problem = Schemas["Problem"] & Record<string, unknown>;

export interface Page<T> {
  items: T[];
  next: string | null;
}
