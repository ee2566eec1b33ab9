/** The words of announcements. */
import type { Announcement } from "../api/types";

/** The levels, the heaviest first. */
export const LEVELS = ["critical", "warning", "info"] as const;

export const LEVEL_WORDS: Record<Announcement["level"], string> = {
  critical: "▲ Critical",
  warning: "▲ Warning",
  info: "Info",
};

/** The node or the cluster of an announcement; empty for one to everybody. */
export function placeOf({ node, cluster }: Announcement): string {
  if (node !== null) return node;
  return cluster === null ? "" : `Cluster ${cluster}`;
}
