import { Button, TextInput } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useState } from "react";

import type { AuditEvent } from "../api/types";
import { may } from "../session/access";
import { useSession } from "../session/useSession";
import { Card } from "../ui/Card";
import { DataTable } from "../ui/DataTable";
import { localOfUtc, utcOfLocal } from "../ui/localTime";
import { Page } from "../ui/Page";
import { PagedCard } from "../ui/PagedCard";
import { Empty } from "../ui/states";
import { Time } from "../ui/Time";
import { zoneName } from "../ui/units";
import { auditCsvAddress, auditQuery, type AuditFilter } from "./queries";
import "./audit.css";

/** The audit log, cut to what I may see of it: who did what to what, when. */
export function AuditPage() {
  const isAllowed = may(useSession(), "view_audit");
  return (
    <Page title="Audit log" lead="Every act of administration, newest first. Nobody can change or delete an event.">
      {isAllowed ? (
        <Events />
      ) : (
        <Card>
          <Empty>The audit log is for auditors and administrators. Ask an administrator for the role auditor.</Empty>
        </Card>
      )}
    </Page>
  );
}

function Events() {
  const { scope, ...search } = useSearch({ from: "/shell/audit" });
  const filter: AuditFilter = { ...search, organization: scope?.split("/")[0] };
  const events = useInfiniteQuery(auditQuery(filter));
  const isNarrowed = Object.values(filter).some((value) => value !== undefined);
  const options = Object.entries(filter).flatMap(([name, value]) => (value ? [`--${name} ${value}`] : []));
  return (
    <>
      <div className="filters">
        <FilterText name="actor" label="Actor" placeholder="any login" />
        <FilterText name="action" label="Action" placeholder="any, such as team_created" />
        <FilterText name="object" label="Object" placeholder="any, such as team or team/ID" />
        <FilterTime name="since" label="From" />
        <FilterTime name="until" label="Before" />
        <Button component="a" href={auditCsvAddress(filter)} download variant="default" className="fit">
          Download CSV
        </Button>
      </div>
      <PagedCard
        query={events}
        label="events"
        lines={8}
        command={["tidegate audit", ...options].join(" ")}
        empty={<Empty>{isNarrowed ? "No event matches these filters." : "No events yet."}</Empty>}
      >
        {(items) => <EventTable events={items} />}
      </PagedCard>
    </>
  );
}

/** A text that filters once it is whole: on Enter, or when the field is left. */
function FilterText({ name, label, placeholder }: { name: "actor" | "action" | "object"; label: string; placeholder: string }) {
  const current = useSearch({ from: "/shell/audit" })[name] ?? "";
  const navigate = useNavigate({ from: "/audit" });
  const [typed, setTyped] = useState<string | null>(null);
  const commit = () => {
    if (typed === null) return;
    setTyped(null);
    void navigate({ search: (old) => ({ ...old, [name]: typed.trim() || undefined }) });
  };
  return (
    <TextInput
      label={label}
      placeholder={placeholder}
      maxLength={127}
      value={typed ?? current}
      onChange={(event) => setTyped(event.currentTarget.value)}
      onBlur={commit}
      onKeyDown={(event) => event.key === "Enter" && commit()}
    />
  );
}

function FilterTime({ name, label }: { name: "since" | "until"; label: string }) {
  const current = useSearch({ from: "/shell/audit" })[name];
  const navigate = useNavigate({ from: "/audit" });
  return (
    <TextInput
      type="datetime-local"
      label={`${label} (your time, ${zoneName(new Date())})`}
      value={current === undefined ? "" : localOfUtc(current)}
      onChange={(event) => {
        const next = utcOfLocal(event.currentTarget.value) ?? undefined;
        void navigate({ search: (old) => ({ ...old, [name]: next }), replace: true });
      }}
    />
  );
}

function EventTable({ events }: { events: readonly AuditEvent[] }) {
  return (
    <DataTable
      label="Audit events"
      className="audit"
      rows={events}
      rowKey={(event) => event.id}
      columns={[
        {
          header: "Action",
          isHeading: true,
          cell: (event) => (
            <>
              {event.action}
              <div className="small faint">
                <Time at={event.at} show="exact" />
              </div>
              <div className="only-phone small dim">
                <Subject event={event} />
              </div>
            </>
          ),
        },
        { header: "Actor", cell: (event) => event.actor },
        { header: "Object", only: "wide", cell: (event) => <Subject event={event} /> },
        {
          header: "Detail",
          only: "wide",
          className: "small dim",
          cell: (event) => <Detail detail={event.detail} />,
        },
      ]}
    />
  );
}

function Subject({ event }: { event: AuditEvent }) {
  return (
    <>
      {event.subject.kind} <span className="mono small faint">{event.subject.id}</span>
      <div className="small faint">{event.node ?? "the platform"}</div>
    </>
  );
}

function Detail({ detail }: { detail: AuditEvent["detail"] }) {
  return Object.entries(detail).map(([name, value]) => (
    <div key={name}>
      {name}: {typeof value === "string" ? value : JSON.stringify(value)}
    </div>
  ));
}
