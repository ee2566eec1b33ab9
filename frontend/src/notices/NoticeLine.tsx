import { useRouter } from "@tanstack/react-router";
import type { MouseEvent } from "react";

import type { Notice } from "../api/types";
import { Countdown, Time } from "../ui/Time";
import { isPlainClick } from "../ui/isPlainClick";
import { useNowMs } from "../ui/now";
import { EVENT_WORDS } from "./words";
import "./notices.css";

/** Deadlines that are closer than this are counted down. */
const COUNTED_MS = 3_600_000;

/** A notice: its sentence, which links to its page, its event and its time. */
export function NoticeLine({ notice, onOpen }: { notice: Notice; onOpen: (notice: Notice) => void }) {
  const router = useRouter();
  const open = (event: MouseEvent) => {
    onOpen(notice);
    if (!isPlainClick(event)) return;
    event.preventDefault();
    void router.navigate({ href: notice.link });
  };
  const isUnread = notice.read_at === null;
  return (
    <div className={isUnread ? "notice unread" : "notice"}>
      {isUnread && <span className="visually-hidden">Unread: </span>}
      <a href={notice.link} onClick={open}>
        {notice.sentence}
      </a>
      <div className="small dim">
        {EVENT_WORDS[notice.event]} · <Time at={notice.at} />
        <Deadline notice={notice} />
      </div>
    </div>
  );
}

/** The numbers of a summary. Each is a link to the page behind it. */
export function Figures({ notice }: { notice: Notice }) {
  const router = useRouter();
  if (notice.figures.length === 0) return null;
  const open = (link: string) => (event: MouseEvent) => {
    if (!isPlainClick(event)) return;
    event.preventDefault();
    void router.navigate({ href: link });
  };
  return (
    <dl className="notice-figures small">
      {notice.figures.map(({ title, value, link }) => (
        <div key={title}>
          <dt>{title}</dt>
          <dd>
            <a href={link} onClick={open(link)}>
              {value}
            </a>
          </dd>
        </div>
      ))}
    </dl>
  );
}

/** The time left to act. Nothing once the deadline has passed. */
function Deadline({ notice: { deadline } }: { notice: Notice }) {
  const now = useNowMs();
  if (deadline === null) return null;
  const leftMs = new Date(deadline).getTime() - now;
  if (leftMs <= 0) return null;
  return (
    <>
      {" · "}
      {leftMs <= COUNTED_MS ? (
        <span className="notice-deadline">
          ▲ <Countdown until={deadline} /> left
        </span>
      ) : (
        <>
          until <Time at={deadline} show="exact" />
        </>
      )}
    </>
  );
}
