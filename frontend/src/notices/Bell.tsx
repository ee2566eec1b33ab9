import { Button, Popover } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";

import { Empty, Lines, QueryView } from "../ui/states";
import { NoticeLine } from "./NoticeLine";
import { latestNoticesQuery, unreadQuery } from "./queries";
import { useNoticeAlerts } from "./useNoticeAlerts";
import { useReading } from "./useReading";

const SHOWN_MAX = 99;

/** The number of unread notices, and the latest ones in a popover. */
export function Bell() {
  const [isOpen, { close, toggle }] = useDisclosure(false);
  const unread = useQuery(unreadQuery).data ?? 0;
  useNoticeAlerts();
  return (
    <Popover opened={isOpen} onChange={(next) => !next && close()} position="bottom-end" width={380} trapFocus>
      <Popover.Target>
        <button
          type="button"
          className="plain bell"
          aria-label={unread === 0 ? "Notices" : `Notices, ${unread} unread`}
          onClick={toggle}
        >
          <BellShape />
          {unread > 0 && (
            <span className="bell-count" aria-hidden="true">
              {unread > SHOWN_MAX ? `${SHOWN_MAX}+` : unread}
            </span>
          )}
        </button>
      </Popover.Target>
      <Popover.Dropdown>{isOpen && <Latest unread={unread} onClose={close} />}</Popover.Dropdown>
    </Popover>
  );
}

function Latest({ unread, onClose }: { unread: number; onClose: () => void }) {
  const latest = useQuery(latestNoticesQuery);
  const reading = useReading();
  const newest = latest.data?.[0];
  return (
    <>
      <QueryView query={latest} loading={<Lines count={4} label="Loading notices" />}>
        {(notices) =>
          notices.length === 0 ? (
            <Empty>No notices yet.</Empty>
          ) : (
            <ul className="bell-list">
              {notices.map((notice) => (
                <li key={notice.id}>
                  <NoticeLine
                    notice={notice}
                    onOpen={(opened) => {
                      reading.read(opened);
                      onClose();
                    }}
                  />
                </li>
              ))}
            </ul>
          )
        }
      </QueryView>
      <div className="bell-foot">
        <Link to="/notices" onClick={onClose}>
          All notices
        </Link>
        {newest && unread > 0 && (
          <Button variant="default" size="xs" loading={reading.isPending} onClick={() => reading.readAll(newest)}>
            Mark all as read
          </Button>
        )}
      </div>
    </>
  );
}

function BellShape() {
  return (
    <svg width="17" height="17" viewBox="0 0 24 24" fill="none" stroke="currentColor" strokeWidth="2" aria-hidden="true">
      <path d="M6 16V11a6 6 0 0 1 12 0v5l2 2H4zM10 21h4" strokeLinecap="round" strokeLinejoin="round" />
    </svg>
  );
}
