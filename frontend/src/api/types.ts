/** Short names for the generated schema: the only place that knows how the API calls its shapes. */
import type { components } from "./schema";

type Schemas = components["schemas"];

export type Session = Schemas["Session"];
export type TreeNode = Schemas["Node"];
export type Pool = Schemas["Pool"];
export type Cluster = Schemas["Cluster"];
export type ClusterNode = Schemas["ClusterNode"];
export type Quota = Schemas["Quota"];
export type QuotaPatch = Schemas["QuotaPatch"];
export type QuotaChange = Schemas["QuotaChange"];
export type PriorityClass = Schemas["PriorityClass"];
export type Job = Schemas["Job"];
export type JobDetail = Schemas["JobDetail"];
export type JobState = Job["state"];
export type JobRequest = Schemas["JobRequest"];
export type JobPlan = Schemas["JobPlan"];
export type SbatchNote = Schemas["Note"];
export type Attempt = Schemas["Attempt"];
export type Explanation = Schemas["Explanation"];
export type HistoryEvent = Schemas["HistoryEvent"];
export type LogChunk = Schemas["LogChunk"];
export type Chargeback = Schemas["Chargeback"];
export type ChargebackRow = Schemas["ChargebackRow"];
export type ChargebackJob = Schemas["ChargebackJob"];
export type Token = Schemas["Token"];
export type NewToken = Schemas["NewToken"];

export interface Page<T> {
  items: T[];
  next: string | null;
}

/** RFC 9457, with the fields that Tidegate adds. */
export interface Problem {
  type?: string;
  title: string;
  status: number;
  detail: string;
  code: string;
  request_id?: string;
  errors?: { pointer: string; detail: string; code: string }[];
  [data: string]: unknown;
}
