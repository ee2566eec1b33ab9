import { Checkbox } from "@mantine/core";

import type { NoticePreferences } from "../api/types";
import { DataTable } from "../ui/DataTable";
import { useChange } from "./preferenceQueries";
import { EVENT_WORDS } from "./words";

type Choice = NoticePreferences["events"][number];

const CHANNELS = [
  { channel: "portal", label: "Portal" },
  { channel: "mail", label: "Mail" },
] as const;

/** A row for each event, with a box for each channel. A change is saved at once. */
export function EventMatrix({ found }: { found: NoticePreferences }) {
  const change = useChange(found);
  return (
    <DataTable
      label="Events by channel"
      rows={found.events}
      rowKey={(choice) => choice.event}
      columns={[
        {
          header: "Event",
          isHeading: true,
          cell: (choice) => (
            <>
              {EVENT_WORDS[choice.event]}
              {isOwn(choice) && <span className="small dim"> · my choice</span>}
            </>
          ),
        },
        ...CHANNELS.map(({ channel, label }) => ({
          header: label,
          cell: (choice: Choice) => (
            <Checkbox
              aria-label={`${EVENT_WORDS[choice.event]}: ${label.toLowerCase()}`}
              checked={choice[channel]}
              disabled={change.isPending}
              onChange={({ currentTarget: { checked } }) =>
                change.mutate({ events: [{ event: choice.event, [channel]: checked }] })
              }
            />
          ),
        })),
      ]}
    />
  );
}

function isOwn(choice: Choice): boolean {
  return choice.portal !== choice.portal_default || choice.mail !== choice.mail_default;
}
