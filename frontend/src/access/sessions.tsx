import { Button } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { client, unwrap } from "../api/client";
import { sessionsQuery } from "../api/queries";
import type { BrowserSession } from "../api/types";
import { Card } from "../ui/Card";
import { CliLine } from "../ui/CliLine";
import { Confirm } from "../ui/Confirm";
import { DataTable } from "../ui/DataTable";
import { Empty, Lines, QueryView } from "../ui/states";
import { Time } from "../ui/Time";
import { toastDone, toastError } from "../ui/toast";

/** The browser sessions of one account: listed and ended. `user` is the login of another person's account. */
export function Sessions({ title, user }: { title: string; user?: string }) {
  const queryClient = useQueryClient();
  const sessions = useQuery(sessionsQuery(user));
  const [asked, setAsked] = useState(false);
  const refresh = () => void queryClient.invalidateQueries({ queryKey: sessionsQuery(user).queryKey });
  const end = useMutation({
    mutationFn: (session: BrowserSession) =>
      unwrap(client.DELETE("/api/v1/sessions/{session_id}", { params: { path: { session_id: session.id } } })),
    onSuccess: (_, session) => toastDone(`The session on ${session.device} has ended`),
    onError: toastError,
    onSettled: refresh,
  });
  const endAll = useMutation({
    mutationFn: () => unwrap(client.POST("/api/v1/sessions/end", { body: { user: user ?? null } })),
    onSuccess: ({ ended }) => toastDone(ended === 1 ? "1 session has ended" : `${ended} sessions have ended`),
    onError: toastError,
    onSettled: () => {
      setAsked(false);
      refresh();
    },
  });
  const others = (sessions.data ?? []).filter((session) => !session.is_current).length;
  const command = user === undefined ? "tidegate session ls" : `tidegate session ls --user ${user}`;
  return (
    <Card style={{ marginTop: 14 }}>
      <div className="spread">
        <h2>{title}</h2>
        {others > 0 && (
          <Button variant="default" c="var(--bad)" onClick={() => setAsked(true)}>
            {user === undefined ? "End all others" : "End all"}
          </Button>
        )}
      </div>
      <QueryView query={sessions} loading={<Lines count={2} label="Loading sessions" />}>
        {(items) =>
          items.length === 0 ? (
            <Empty>No sessions.</Empty>
          ) : (
            <DataTable
              label={title}
              rows={items}
              rowKey={(session) => session.id}
              columns={[
                {
                  header: "Device",
                  isHeading: true,
                  className: "breaks",
                  cell: (session) => (
                    <span title={session.user_agent}>
                      {session.device} {session.is_current && <span className="pill">this session</span>}
                    </span>
                  ),
                },
                {
                  header: "Address",
                  only: "wide",
                  className: "breaks",
                  cell: (session) => <code>{session.address || "unknown"}</code>,
                },
                { header: "Signed in", only: "wide", cell: (session) => <Time at={session.started_at} /> },
                { header: "Last used", cell: (session) => <Time at={session.last_used_at} /> },
                {
                  header: <span className="visually-hidden">Actions</span>,
                  isRight: true,
                  cell: (session) =>
                    !session.is_current && (
                      <Button
                        variant="default"
                        size="xs"
                        c="var(--bad)"
                        aria-label={`End the session on ${session.device}`}
                        loading={end.isPending && end.variables.id === session.id}
                        onClick={() => end.mutate(session)}
                      >
                        End
                      </Button>
                    ),
                },
              ]}
            />
          )
        }
      </QueryView>
      <p className="sub" style={{ marginTop: 14 }}>
        <CliLine command={command} />
      </p>
      <Confirm
        isOpen={asked}
        title={user === undefined ? "End all other sessions?" : `End all sessions of ${user}?`}
        isBusy={endAll.isPending}
        isDangerous
        confirmLabel="End them"
        onConfirm={() => endAll.mutate()}
        onClose={() => setAsked(false)}
      >
        Open pages are signed out at once. Access tokens stay.
      </Confirm>
    </Card>
  );
}
