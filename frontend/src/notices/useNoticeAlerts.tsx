import { notifications } from "@mantine/notifications";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useRouter } from "@tanstack/react-router";
import { useEffect, useRef } from "react";

import type { Notice } from "../api/types";
import { Countdown } from "../ui/Time";
import { isAllowed } from "./browserNotices";
import { alertsQuery, unreadQuery } from "./queries";
import { useReading } from "./useReading";

/** A preemption that is further away is not counted down in a toast. */
const COUNTED_MS = 3_600_000;

/**
 * Tells of notices that arrive while the page is open: a preemption by a toast that counts down, a start by a
 * notification of the browser. The list is read only when the number of unread notices has grown.
 */
export function useNoticeAlerts() {
  const unread = useQuery(unreadQuery).data;
  const before = useRef<number | undefined>(undefined);
  const openedAt = useRef(new Date().toISOString());
  const told = useRef(new Set<string>());
  const queryClient = useQueryClient();
  const router = useRouter();
  const { read } = useReading();
  useEffect(() => {
    const hasGrown = unread !== undefined && before.current !== undefined && unread > before.current;
    before.current = unread;
    if (!hasGrown) return;
    const tell = (notice: Notice) => {
      const open = () => {
        read(notice);
        void router.navigate({ href: notice.link });
      };
      if (notice.event === "job_started") tellStart(notice, open);
      else tellPreemption(notice, open);
    };
    void queryClient
      .query(alertsQuery)
      .then((notices) => {
        for (const notice of notices) {
          if (notice.at < openedAt.current || told.current.has(notice.id)) continue;
          told.current.add(notice.id);
          tell(notice);
        }
      })
      // The bell has counted it, and its list says it with the next look.
      .catch(() => undefined);
  }, [unread, queryClient, router, read]);
}

/** A toast stands outside of the router, so its link is told what to do. */
function tellPreemption({ id, sentence, link, deadline }: Notice, open: () => void) {
  const leftMs = deadline === null ? 0 : Date.parse(deadline) - Date.now();
  if (deadline === null || leftMs <= 0 || leftMs > COUNTED_MS) return;
  notifications.show({
    id,
    message: (
      <>
        <a
          href={link}
          onClick={(event) => {
            event.preventDefault();
            notifications.hide(id);
            open();
          }}
        >
          {sentence}
        </a>
        <div className="notice-deadline">
          ▲ <Countdown until={deadline} /> left
        </div>
      </>
    ),
    color: "orange",
    withBorder: true,
    autoClose: leftMs,
    closeButtonProps: { "aria-label": "Close this message" },
  });
}

function tellStart(notice: Notice, open: () => void) {
  if (!isAllowed()) return;
  const shown = new Notification(notice.sentence, { tag: notice.id });
  shown.onclick = () => {
    window.focus();
    open();
  };
}
