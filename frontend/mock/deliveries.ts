/** Deliveries of files: one is done, one is tried again, and one has failed. */
import type { components } from "../src/api/schema";

import { page, type MockAnswer, type MockRequest } from "./http.ts";

type Delivery = components["schemas"]["Delivery"];
type Schedule = components["schemas"]["DeliverySchedule"];

export function aSchedule(changes: Partial<Schedule> = {}): Schedule {
  return {
    id: "01a1fd00-0000-7000-8000-0000000000d1",
    organization: "ai-company",
    dataset: "charges",
    format: "parquet",
    frequency: "monthly",
    target: "archive",
    created_by: "fiona@ai-company",
    created_at: "2026-10-01T09:00:00Z",
    ended_at: null,
    ...changes,
  };
}

export function aDelivery(changes: Partial<Delivery> = {}): Delivery {
  return {
    id: "01a1fd00-0000-7000-8000-0000000000d9",
    schedule: aSchedule(),
    due_on: "2026-10-01",
    state: "done",
    message: "",
    tries: 0,
    next_at: "2026-11-05T09:00:00Z",
    delivered_at: "2026-11-05T09:00:20Z",
    file_name: "charges-ai-company-20261001-20261101.parquet",
    sha256: "0".repeat(64),
    ...changes,
  };
}

const DAILY = aSchedule({ id: "d2", dataset: "focus_cost_and_usage", format: "csv", frequency: "daily", target: "finance-share" });

export function theDeliveries(): Delivery[] {
  const waits = { schedule: DAILY, sha256: "", delivered_at: null, tries: 2 };
  return [
    aDelivery({
      ...waits,
      id: "d8",
      due_on: "2026-11-20",
      state: "waiting",
      file_name: "focus_cost_and_usage-ai-company-20261101-20261201.csv",
      message: "The folder of the target finance-share does not exist. Ask the operator to mount it.",
    }),
    aDelivery({ ...waits, id: "d7", due_on: "2026-11-19", state: "failed", file_name: null, message: "A later file replaces it." }),
    aDelivery(),
  ];
}

/** Answers requests about deliveries, their schedules and targets; changes are not remembered. */
export function deliveries(resource: string, { method, query }: MockRequest): MockAnswer {
  if (resource === "delivery-targets")
    return page([{ name: "archive", kind: "s3" }, { name: "finance-share", kind: "folder" }], query);
  if (method === "DELETE") return { status: 204 };
  if (resource === "delivery-schedules")
    return method === "POST" ? { status: 201, body: aSchedule() } : page([DAILY, aSchedule()], query);
  return method === "POST" ? { status: 202, body: aDelivery({ state: "waiting" }) } : page(theDeliveries(), query);
}
