import { Button, Modal } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";

import type { MaintenanceWindow } from "../api/types";
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
import { MaintenanceForm } from "./MaintenanceForm";
import { cancelMaintenance, maintenanceQuery, stillRunningQuery } from "./queries";

/** "kube-b", "kube-b, pool h100", or "kube-b, n1 and 3 more nodes". */
function placeOf({ cluster, pool, nodes }: MaintenanceWindow): string {
  const place = pool === null ? cluster : `${cluster}, pool ${pool}`;
  if (nodes === null) return place;
  return nodes.length < 3 ? `${place}, ${nodes.join(", ")}` : `${place}, ${nodes[0] ?? ""} and ${nodes.length - 1} more nodes`;
}

const isAhead = ({ state }: MaintenanceWindow) => state === "planned" || state === "open";

/** Times in which nothing runs on a cluster: past, present and future ones. */
export function MaintenancePage() {
  const windows = useQuery(maintenanceQuery);
  const session = useSession();
  const [isMaking, setMaking] = useState(false);
  return (
    <Page
      title="Maintenance"
      lead="No job starts on a cluster, or on some of its nodes, that could still run in a window. Running jobs are not stopped."
      actions={may(session, "manage_clusters") && <Button onClick={() => setMaking(true)}>Plan maintenance</Button>}
    >
      <QueryView query={windows} loading={<Lines count={3} label="Loading maintenance" />}>
        {(items) => (
          <div className="stack">
            <Card>
              {items.length === 0 ? <Empty>No maintenance.</Empty> : <WindowTable windows={items} />}
            </Card>
            {items.filter(isAhead).map((window) => (
              <StillRunning key={window.id} window={window} />
            ))}
          </div>
        )}
      </QueryView>
      <p className="sub" style={{ marginTop: 14 }}>
        <CliLine command="tidegate maintenance list" />
      </p>
      <Modal
        opened={isMaking}
        onClose={() => setMaking(false)}
        title="Plan maintenance"
        closeButtonProps={{ "aria-label": "Close" }}
      >
        <MaintenanceForm onDone={() => setMaking(false)} />
      </Modal>
    </Page>
  );
}

function WindowTable({ windows }: { windows: readonly MaintenanceWindow[] }) {
  return (
    <DataTable
      label="Maintenance windows"
      rows={windows}
      rowKey={({ id }) => id}
      columns={[
        {
          header: "Cluster",
          isHeading: true,
          className: "breaks",
          cell: (window) => (
            <>
              {placeOf(window)}
              <div className="small dim">
                {window.reason} · {window.made_by}
              </div>
              {window.nodes !== null && window.nodes.length > 2 && (
                <div className="small dim">{window.nodes.join(", ")}</div>
              )}
            </>
          ),
        },
        { header: "State", cell: ({ state }) => state },
        {
          header: "Time",
          cell: ({ start, end }) => (
            <>
              <Time at={start} show="exact" />
              {" – "}
              <Time at={end} show="exact" />
            </>
          ),
        },
        {
          header: <span className="visually-hidden">Actions</span>,
          isRight: true,
          cell: (window) => window.can_change && <WindowActions window={window} />,
        },
      ]}
    />
  );
}

function WindowActions({ window }: { window: MaintenanceWindow }) {
  const queryClient = useQueryClient();
  const [open, setOpen] = useState<"change" | "cancel" | null>(null);
  const cancel = useMutation({
    mutationFn: cancelMaintenance,
    onSuccess: () => toastDone("Cancelled"),
    onError: toastError,
    onSettled: () => {
      setOpen(null);
      void queryClient.invalidateQueries({ queryKey: ["maintenance"] });
      void queryClient.invalidateQueries({ queryKey: ["announcements"] });
    },
  });
  return (
    <div className="inline end">
      <Button variant="default" size="xs" aria-label={`Change: ${placeOf(window)}`} onClick={() => setOpen("change")}>
        Change
      </Button>
      <Button variant="default" size="xs" aria-label={`Cancel: ${placeOf(window)}`} onClick={() => setOpen("cancel")}>
        Cancel
      </Button>
      <Modal
        opened={open === "change"}
        onClose={() => setOpen(null)}
        title="Change the maintenance"
        closeButtonProps={{ "aria-label": "Close" }}
      >
        <MaintenanceForm window={window} onDone={() => setOpen(null)} />
      </Modal>
      <Confirm
        title="Cancel the maintenance?"
        isOpen={open === "cancel"}
        isBusy={cancel.isPending}
        confirmLabel="Cancel the maintenance"
        isDangerous
        onConfirm={() => cancel.mutate(window)}
        onClose={() => setOpen(null)}
      >
        {placeOf(window)}: jobs start there again at once.
      </Confirm>
    </div>
  );
}

/** The jobs that would still run when the window begins. */
function StillRunning({ window }: { window: MaintenanceWindow }) {
  const jobs = useQuery(stillRunningQuery(window));
  const title = `Jobs still running at the start: ${placeOf(window)}`;
  return (
    <Card label={title}>
      <h2>{title}</h2>
      <p className="small dim">
        Nothing stops them. The window starts <Time at={window.start} show="both" />.
      </p>
      <QueryView query={jobs} loading={<Lines count={2} label="Loading jobs" />}>
        {(items) =>
          items.length === 0 ? (
            <Empty>All jobs that you may see end before it.</Empty>
          ) : (
            <DataTable
              label={title}
              rows={items}
              rowKey={({ job }) => job}
              columns={[
                {
                  header: "Job",
                  isHeading: true,
                  className: "breaks",
                  cell: ({ job, name }) => (
                    <Link to="/jobs/$jobId" params={{ jobId: job }}>
                      {name}
                    </Link>
                  ),
                },
                { header: "Team", className: "breaks", cell: ({ team }) => team },
                { header: "User", className: "breaks", cell: ({ user }) => user },
                {
                  header: "Ends by",
                  cell: ({ ends_at: endsAt }) => (endsAt === null ? "no time limit" : <Time at={endsAt} show="exact" />),
                },
              ]}
            />
          )
        }
      </QueryView>
      <p className="sub">
        <CliLine command={`tidegate maintenance jobs ${window.id.slice(-8)}`} />
      </p>
    </Card>
  );
}
