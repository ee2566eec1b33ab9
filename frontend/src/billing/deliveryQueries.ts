import { queryOptions } from "@tanstack/react-query";

import { client, unwrap } from "../api/client";
import type { components } from "../api/schema";

export type Delivery = components["schemas"]["Delivery"];
export type DeliverySchedule = components["schemas"]["DeliverySchedule"];

const SHOWN = 10;
/** The bound of schedules of one organization is below it. */
const SCHEDULES_READ = 100;

export const deliveryTargetsQuery = queryOptions({
  queryKey: ["reports", "delivery-targets"],
  queryFn: async ({ signal }) => (await unwrap(client.GET("/api/v1/delivery-targets", { signal }))).items,
});

export const deliverySchedulesQuery = queryOptions({
  queryKey: ["reports", "delivery-schedules"],
  queryFn: async ({ signal }) =>
    (await unwrap(client.GET("/api/v1/delivery-schedules", { params: { query: { limit: SCHEDULES_READ } }, signal })))
      .items,
});

/** The newest deliveries. */
export const deliveriesQuery = queryOptions({
  queryKey: ["reports", "deliveries"],
  queryFn: async ({ signal }) =>
    (await unwrap(client.GET("/api/v1/deliveries", { params: { query: { limit: SHOWN } }, signal }))).items,
});
