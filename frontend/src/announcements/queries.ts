import { queryOptions } from "@tanstack/react-query";

import { client, unwrap } from "../api/client";
import type { Announcement, NewAnnouncement } from "../api/types";

const LISTED_MAX = 500;
const AGAIN_MS = 60_000;

/** The announcements that are shown now. They come and go by the clock, so they are read each minute. */
export const currentAnnouncementsQuery = queryOptions({
  queryKey: ["announcements", "current"],
  refetchInterval: AGAIN_MS,
  queryFn: async ({ signal }) =>
    (await unwrap(client.GET("/api/v1/announcements", { params: { query: { current: true, limit: LISTED_MAX } }, signal }))).items,
});

/** All announcements that I may see, also past and future ones. */
export const announcementsQuery = queryOptions({
  queryKey: ["announcements", "all"],
  queryFn: async ({ signal }) =>
    (await unwrap(client.GET("/api/v1/announcements", { params: { query: { limit: LISTED_MAX } }, signal }))).items,
});

export const announce = (body: NewAnnouncement) => unwrap(client.POST("/api/v1/announcements", { body }));

export const removeAnnouncement = ({ id }: Announcement) =>
  unwrap(client.DELETE("/api/v1/announcements/{announcement_id}", { params: { path: { announcement_id: id } } }));
