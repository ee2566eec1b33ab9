import { Button, Checkbox, Select } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";

import type { Notice } from "../api/types";
import { DataTable } from "../ui/DataTable";
import { Page } from "../ui/Page";
import { PagedCard } from "../ui/PagedCard";
import { Empty } from "../ui/states";
import { Figures, NoticeLine } from "./NoticeLine";
import { noticesQuery } from "./queries";
import { useReading } from "./useReading";
import { EVENT_WORDS, EVENTS } from "./words";

/** My notices: of my jobs, of teams that I lead, and of requests that wait for me. */
export function NoticesPage() {
  const { event, object, unread } = useSearch({ from: "/shell/notices" });
  const navigate = useNavigate({ from: "/notices" });
  const notices = useInfiniteQuery(noticesQuery({ event, object, unread }));
  const reading = useReading();
  const newest = notices.data?.pages[0]?.items[0];
  const isWhole = event === undefined && object === undefined;
  const isNarrowed = !isWhole || unread === true;
  const options = [
    ...(event ? [`--event ${event}`] : []),
    ...(object ? [`--object ${object}`] : []),
    ...(unread ? ["--unread"] : []),
  ];
  return (
    <Page
      title="Notices"
      lead="Events of your jobs, of teams that you manage, and requests that wait for you. Notices are kept for 90 days."
      actions={
        <div className="inline">
          <Link to="/notices/preferences">Preferences</Link>
          <Link to="/notices/webhooks">Webhooks</Link>
          {isWhole && newest && (
            <Button variant="default" loading={reading.isPending} onClick={() => reading.readAll(newest)}>
              Mark all as read
            </Button>
          )}
        </div>
      }
    >
      <div className="filters">
        <Select
          label="Event"
          placeholder="any"
          clearable
          clearButtonProps={{ "aria-label": "Any event" }}
          data={EVENTS.map((value) => ({ value, label: EVENT_WORDS[value] }))}
          value={event ?? null}
          onChange={(next) =>
            void navigate({ search: (old) => ({ ...old, event: next ?? undefined }) })
          }
        />
        <Checkbox
          label="Unread only"
          checked={unread === true}
          onChange={({ currentTarget: { checked } }) =>
            void navigate({ search: (old) => ({ ...old, unread: checked ? true : undefined }) })
          }
        />
        {object && (
          <Button
            variant="default"
            className="fit"
            onClick={() => void navigate({ search: (old) => ({ ...old, object: undefined }) })}
          >
            Show all objects
          </Button>
        )}
      </div>
      <PagedCard
        query={notices}
        label="notices"
        lines={8}
        command={["tidegate notices", ...options].join(" ")}
        empty={<Empty>{isNarrowed ? "No notice matches these filters." : "No notices yet."}</Empty>}
      >
        {(items) => <NoticeTable notices={items} onRead={reading.read} />}
      </PagedCard>
    </Page>
  );
}

function NoticeWithFigures({ notice, onOpen }: { notice: Notice; onOpen: (notice: Notice) => void }) {
  return (
    <>
      <NoticeLine notice={notice} onOpen={onOpen} />
      <Figures notice={notice} />
    </>
  );
}

function NoticeTable({ notices, onRead }: { notices: readonly Notice[]; onRead: (notice: Notice) => void }) {
  const navigate = useNavigate({ from: "/notices" });
  return (
    <DataTable
      label="Notices"
      rows={notices}
      rowKey={(notice) => notice.id}
      columns={[
        { header: "Notice", isHeading: true, cell: (notice) => <NoticeWithFigures notice={notice} onOpen={onRead} /> },
        {
          header: "Object",
          only: "wide",
          cell: (notice) => (
            <button
              type="button"
              className="plain"
              title="Show only the notices of this object"
              onClick={() =>
                void navigate({ search: (old) => ({ ...old, object: `${notice.subject_kind}/${notice.subject_id}` }) })
              }
            >
              {notice.subject_kind.replaceAll("_", " ")}{" "}
              <span className="mono small faint">{notice.subject_id.slice(-4)}</span>
            </button>
          ),
        },
        {
          header: <span className="visually-hidden">Actions</span>,
          isRight: true,
          only: "wide",
          cell: (notice) =>
            notice.read_at === null && (
              <Button
                variant="default"
                size="xs"
                aria-label={`Mark as read: ${notice.sentence}`}
                onClick={() => onRead(notice)}
              >
                Mark as read
              </Button>
            ),
        },
      ]}
    />
  );
}
