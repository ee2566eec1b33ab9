import { queryOptions } from "@tanstack/react-query";

import { client, unwrap } from "../api/client";
import { readWhole } from "../api/queries";
import type { MaintenanceUpdate, MaintenanceWindow, NewMaintenance } from "../api/types";

const LISTED_MAX = 500;

/** The windows of all clusters, the newest first. */
export const maintenanceQuery = queryOptions({
  queryKey: ["maintenance", "windows"],
  queryFn: async ({ signal }) =>
    (await unwrap(client.GET("/api/v1/maintenance-windows", { params: { query: { limit: LISTED_MAX } }, signal }))).items,
});

/** The jobs that would still run when a window begins, as far as I may see them. */
export const stillRunningQuery = ({ id }: MaintenanceWindow) =>
  queryOptions({
    queryKey: ["maintenance", "jobs", id],
    queryFn: ({ signal }) =>
      readWhole((cursor) =>
        unwrap(
          client.GET("/api/v1/maintenance-windows/{maintenance_id}/jobs", {
            params: { path: { maintenance_id: id }, query: { limit: LISTED_MAX, cursor } },
            signal,
          }),
        ),
      ),
  });

export const planMaintenance = (body: NewMaintenance) => unwrap(client.POST("/api/v1/maintenance-windows", { body }));

export const changeMaintenance = ({ id, version }: MaintenanceWindow, body: MaintenanceUpdate) =>
  unwrap(
    client.PATCH("/api/v1/maintenance-windows/{maintenance_id}", {
      params: { path: { maintenance_id: id }, header: { "If-Match": `"v${version}"` } },
      body,
    }),
  );

export const cancelMaintenance = ({ id }: MaintenanceWindow) =>
  unwrap(client.POST("/api/v1/maintenance-windows/{maintenance_id}/cancel", { params: { path: { maintenance_id: id } } }));
