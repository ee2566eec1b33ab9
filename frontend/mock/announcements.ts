/** Announcements of the mock's company. */
import type { Announcement, NewAnnouncement } from "../src/api/types";
import { page, type MockAnswer, type MockRequest } from "./http.ts";

export function anAnnouncement(number: number, change: Partial<Announcement>): Announcement {
  return {
    id: `01935000-0000-7000-8000-0000000a0${String(number).padStart(3, "0")}`,
    version: 1,
    node: null,
    cluster: null,
    level: "info",
    text: "The portal is updated on Sunday.",
    start: "2026-11-20T08:00:00Z",
    end: null,
    made_by: "root",
    can_change: true,
    ...change,
  };
}

export const theAnnouncements = (): Announcement[] => [
  anAnnouncement(1, { cluster: "kube-b", level: "warning", text: "Its network is slow until the new switches are in." }),
];

/** Answers for the announcements of `rows`, which change. */
export function announcements(rows: Announcement[], { method, query, body }: MockRequest, id?: string): MockAnswer {
  if (method === "POST") {
    const made = anAnnouncement(rows.length + 1, { text: (body as NewAnnouncement).text });
    rows.unshift(made);
    return { status: 201, body: made };
  }
  if (method === "DELETE") {
    rows.splice(rows.findIndex((row) => row.id === id), 1);
    return { status: 204 };
  }
  return page(rows, query);
}
