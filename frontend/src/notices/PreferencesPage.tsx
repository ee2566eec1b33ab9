import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";

import type { Mail, NoticePreferences } from "../api/types";
import { Card } from "../ui/Card";
import { CliLine } from "../ui/CliLine";
import { DataTable } from "../ui/DataTable";
import { Page } from "../ui/Page";
import { PagedCard } from "../ui/PagedCard";
import { Time } from "../ui/Time";
import { Empty, Lines, QueryView } from "../ui/states";
import { BrowserNotices } from "./BrowserNotices";
import { EventMatrix } from "./EventMatrix";
import { MailTimes } from "./MailTimes";
import { mailsQuery, preferencesQuery } from "./preferenceQueries";
import { STATE_WORDS } from "./words";
import "./notices.css";

/** Events that reach me with their channels, the hours of mail, and the mails that were sent. */
export function PreferencesPage() {
  const preferences = useQuery(preferencesQuery);
  const mails = useInfiniteQuery(mailsQuery);
  return (
    <Page
      title="Notice preferences"
      lead="Choose the events that reach you, their channels, and the hours of mail."
      up={<Link to="/notices">Notices</Link>}
    >
      <QueryView query={preferences} loading={<Loading />}>
        {(found) => (
          <div className="rows">
            <Card label="Events by channel">
              <h2>Events by channel</h2>
              <MailAddress found={found} />
              <EventMatrix found={found} />
              <p>
                <CliLine command="tidegate notify list" />
              </p>
            </Card>
            <Card label="Hours of mail">
              <h2>Hours of mail</h2>
              <MailTimes key={found.version} found={found} />
            </Card>
            <Card label="This browser">
              <h2>This browser</h2>
              <BrowserNotices />
            </Card>
          </div>
        )}
      </QueryView>
      <h2 style={{ marginTop: 18 }}>Mails to me</h2>
      <PagedCard
        query={mails}
        label="mails"
        lines={3}
        command="tidegate notify mails"
        empty={<Empty>No mails in the last 30 days.</Empty>}
      >
        {(items) => <MailTable mails={items} />}
      </PagedCard>
    </Page>
  );
}

function Loading() {
  return (
    <Card>
      <Lines count={12} label="Loading your preferences" />
    </Card>
  );
}

function MailAddress({ found: { email, is_mail_configured } }: { found: NoticePreferences }) {
  if (!is_mail_configured) {
    return <p className="dim">No mail is sent: this installation has no mail server. Ask its operator.</p>;
  }
  if (email === "") {
    return <p className="dim">No mail is sent to you: an administrator must first store your email address.</p>;
  }
  return <p className="dim">Mail goes to {email}.</p>;
}

function MailTable({ mails }: { mails: readonly Mail[] }) {
  return (
    <DataTable
      label="Mails"
      rows={mails}
      rowKey={(mail) => mail.id}
      columns={[
        {
          header: "Mail",
          isHeading: true,
          cell: (mail) => (
            <div className="notice">
              {mail.subject}
              <div className="small dim">
                <Time at={mail.created_at} />
                {mail.error !== "" && ` · ${mail.error}`}
              </div>
            </div>
          ),
        },
        { header: "State", cell: (mail) => STATE_WORDS[mail.state] },
        { header: "Tries", isRight: true, only: "wide", cell: (mail) => mail.attempts },
      ]}
    />
  );
}
