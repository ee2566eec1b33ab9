import { Button, Modal } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import type { Announcement } from "../api/types";
import { may } from "../session/access";
import { useSession } from "../session/useSession";
import { Card } from "../ui/Card";
import { CliLine } from "../ui/CliLine";
import { Confirm } from "../ui/Confirm";
import { DataTable } from "../ui/DataTable";
import { Page } from "../ui/Page";
import { Empty, Lines, QueryView } from "../ui/states";
import { Time } from "../ui/Time";
import { toastDone, toastError } from "../ui/toast";
import { AnnouncementForm } from "./AnnouncementForm";
import { announcementsQuery, removeAnnouncement } from "./queries";
import { LEVEL_WORDS, placeOf } from "./words";

/** Texts on top of all pages: past, present and future ones. */
export function AnnouncementsPage() {
  const announcements = useQuery(announcementsQuery);
  const session = useSession();
  const [isMaking, setMaking] = useState(false);
  return (
    <Page
      title="Announcements"
      lead="Texts on top of all pages: to everybody, or of a node or a cluster."
      actions={may(session, "manage_members") && <Button onClick={() => setMaking(true)}>New announcement</Button>}
    >
      <Card>
        <QueryView query={announcements} loading={<Lines count={3} label="Loading announcements" />}>
          {(items) =>
            items.length === 0 ? <Empty>No announcements.</Empty> : <AnnouncementTable announcements={items} />
          }
        </QueryView>
      </Card>
      <p className="sub" style={{ marginTop: 14 }}>
        <CliLine command="tidegate announcements list" />
      </p>
      <Modal
        opened={isMaking}
        onClose={() => setMaking(false)}
        title="New announcement"
        closeButtonProps={{ "aria-label": "Close" }}
      >
        <AnnouncementForm onMade={() => setMaking(false)} />
      </Modal>
    </Page>
  );
}

function AnnouncementTable({ announcements }: { announcements: readonly Announcement[] }) {
  return (
    <DataTable
      label="Announcements"
      rows={announcements}
      rowKey={({ id }) => id}
      columns={[
        {
          header: "Text",
          isHeading: true,
          className: "breaks",
          cell: (announcement) => (
            <>
              {announcement.text}
              <div className="small dim">
                {LEVEL_WORDS[announcement.level]} · {placeOf(announcement) || "everybody"} · {announcement.made_by}
              </div>
            </>
          ),
        },
        {
          header: "Shown",
          cell: ({ start, end }) => (
            <>
              <Time at={start} show="exact" />
              {end !== null && (
                <>
                  {" – "}
                  <Time at={end} show="exact" />
                </>
              )}
            </>
          ),
        },
        {
          header: <span className="visually-hidden">Actions</span>,
          isRight: true,
          cell: (announcement) => announcement.can_change && <Removal announcement={announcement} />,
        },
      ]}
    />
  );
}

function Removal({ announcement }: { announcement: Announcement }) {
  const queryClient = useQueryClient();
  const [isAsking, setAsking] = useState(false);
  const remove = useMutation({
    mutationFn: removeAnnouncement,
    onSuccess: () => toastDone("Removed"),
    onError: toastError,
    onSettled: () => queryClient.invalidateQueries({ queryKey: ["announcements"] }),
  });
  return (
    <>
      <Button variant="default" size="xs" aria-label={`Remove: ${announcement.text}`} onClick={() => setAsking(true)}>
        Remove
      </Button>
      <Confirm
        title="Remove the announcement?"
        isOpen={isAsking}
        isBusy={remove.isPending}
        confirmLabel="Remove"
        isDangerous
        onConfirm={() => remove.mutate(announcement)}
        onClose={() => setAsking(false)}
      >
        {announcement.text}
      </Confirm>
    </>
  );
}
