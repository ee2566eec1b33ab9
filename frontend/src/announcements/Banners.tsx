import { useQuery } from "@tanstack/react-query";

import type { Announcement } from "../api/types";
import { Time } from "../ui/Time";
import { currentAnnouncementsQuery } from "./queries";
import { LEVEL_WORDS, LEVELS, placeOf } from "./words";
import "./announcements.css";

/** The announcements of this moment, the heaviest first. */
export function Banners() {
  const announcements = useQuery(currentAnnouncementsQuery).data ?? [];
  if (announcements.length === 0) return null;
  const weight = ({ level }: Announcement) => LEVELS.indexOf(level);
  return (
    <section className="banners" aria-label="Announcements">
      {[...announcements]
        .sort((one, other) => weight(one) - weight(other))
        .map((announcement) => (
          <p key={announcement.id} className={`banner ${announcement.level}`}>
            <b>{LEVEL_WORDS[announcement.level]}</b> {placeOf(announcement) && <span>{placeOf(announcement)}: </span>}
            {announcement.text}
            {announcement.end !== null && (
              <span className="small">
                {" "}
                · until <Time at={announcement.end} show="exact" />
              </span>
            )}
          </p>
        ))}
    </section>
  );
}
