import { Button, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { client, unwrap } from "../api/client";
import { may } from "../session/access";
import { useSession } from "../session/useSession";
import { DataTable } from "../ui/DataTable";
import { Lines, QueryView } from "../ui/states";
import { Time } from "../ui/Time";
import { toastError } from "../ui/toast";
import { deviceTime, formatCount, formatExact, formatGpuHours, formatGpuSeconds, headOf } from "../ui/units";
import {
  reconciliationQuery,
  type Reconciliation as Day,
  type ReconciliationDetail,
  type ReconciliationDifference as Difference,
} from "./reconciliationQueries";

/** What each cause means to whoever has to find out more. */
const CAUSES: Record<Difference["cause"], string> = {
  only_in_meter: "metered, and the cluster has no such run",
  only_in_account: "on the cluster's account, and not metered",
  start_differs: "it starts at another time",
  end_differs: "it ends at another time",
  still_running: "one says that it still runs, the other that it ended",
  gpus_differ: "another number of GPUs or cores",
  meter_gap: "the meter has a hole where it ran",
  account_differs: "metered for one team, on account for another",
  pool_differs: "metered in one pool, on account in another",
  second_run: "the cluster ran it once more",
  native_unmapped: "submitted on the cluster by an unknown person; charged to nobody",
  account_changed: "both agreed, and the cluster's account was changed since",
};

/** What a day says in a word, and the pill that it has. */
export function verdictOf(day: Day): { word: string; tone: "run" | "bad" | "wait" } {
  const soFar = day.is_complete ? "" : " so far";
  switch (day.status) {
    case "green":
      return { word: `agrees${soFar}`, tone: "run" };
    case "red":
      return day.acknowledgement === null
        ? { word: `differs${soFar}`, tone: "bad" }
        : { word: `differs${soFar}, acknowledged`, tone: "wait" };
    case "pending":
      return { word: "pending", tone: "wait" };
    case "unavailable":
      return { word: "not available", tone: "wait" };
  }
}

/** A sum of a day, of each kind of devices: "1.00 GPU-h and 2.00 core-h". */
function told(day: Day, value: (sums: Day["by_device"][number]) => number): string {
  if (day.by_device.length === 0) return `${formatGpuHours(0)} ${deviceTime("gpu", "h")}`;
  return day.by_device.map((sums) => `${formatGpuHours(value(sums))} ${deviceTime(sums.device, "h")}`).join(" and ");
}

/** What the comparison of a day of a cluster found, and what can be done about it. */
export function ReconciledDay({ id }: { id: string }) {
  const day = useQuery(reconciliationQuery(id));
  return (
    <QueryView query={day} loading={<Lines count={4} label="Loading the differences" />}>
      {(data) => (
        <div role="region" aria-label={`${data.day} of ${data.cluster}`}>
          <h2>
            {data.day} · {data.cluster}
          </h2>
          <Summary day={data} />
          <Differences day={data} />
        </div>
      )}
    </QueryView>
  );
}

function Summary({ day }: { day: ReconciliationDetail }) {
  const session = useSession();
  const queries = useQueryClient();
  const again = useMutation({
    mutationFn: () =>
      unwrap(
        client.POST("/api/v1/reconciliations", { body: { cluster: day.cluster, day: day.day } }),
      ),
    onSuccess: () => queries.invalidateQueries({ queryKey: ["reports"] }),
    onError: toastError,
  });
  return (
    <>
      <p className="sub">
        {day.as_of === null ? (
          "Not compared yet."
        ) : (
          <>
            Meter {told(day, (sums) => sums.metered_mgpu_s)}, cluster {told(day, (sums) => sums.accounted_mgpu_s)}, as of <Time at={day.as_of} show="both" />.
          </>
        )}
        {day.status === "unavailable" && " The cluster did not give its account."}
        {day.status === "pending" && " The cluster's account is not complete yet."}
        {day.next_at !== null && (
          <>
            {" "}
            Compared again <Time at={day.next_at} />.
          </>
        )}
      </p>
      {day.acknowledgement !== null && (
        <p className="acknowledged">
          Acknowledged by {day.acknowledgement.by} <Time at={day.acknowledgement.at} show="both" />:{" "}
          {day.acknowledgement.reason}
        </p>
      )}
      {day.message !== "" && <p className="small faint">{day.message}</p>}
      {may(session, "manage_prices") && (
        <Button
          variant="default"
          loading={again.isPending}
          disabled={day.is_requested}
          onClick={() => again.mutate()}
        >
          {day.is_requested ? "Is being compared" : "Compare again"}
        </Button>
      )}
      {day.status === "red" && may(session, "manage_prices") && <Acknowledge day={day} />}
    </>
  );
}

/** A red day stays red; whoever manages its money says why its differences stay. */
function Acknowledge({ day }: { day: ReconciliationDetail }) {
  const queries = useQueryClient();
  const form = useForm({ initialValues: { reason: "" } });
  const { reason } = form.values;
  const acknowledge = useMutation({
    mutationFn: () =>
      unwrap(
        client.POST("/api/v1/reconciliations/{reconciliation_id}/acknowledgement", {
          params: { path: { reconciliation_id: day.id } },
          body: { reason },
        }),
      ),
    onSuccess: () => {
      form.reset();
      return queries.invalidateQueries({ queryKey: ["reports"] });
    },
    onError: toastError,
  });
  return (
    <form
      className="acknowledge"
      onSubmit={form.onSubmit(() => acknowledge.mutate())}
    >
      <TextInput
        label="Reason"
        description="The day stays red. The reason is shown and kept in the audit log."
        {...form.getInputProps("reason")}
        maxLength={500}
        required
      />
      <Button type="submit" variant="default" loading={acknowledge.isPending} disabled={reason.trim() === ""}>
        {day.acknowledgement === null ? "Acknowledge" : "Replace the acknowledgement"}
      </Button>
    </form>
  );
}

function Differences({ day }: { day: ReconciliationDetail }) {
  const rows = day.accounts.flatMap((account) =>
    account.differences.map((difference) => ({ account, difference })),
  );
  const head = headOf(day.accounts);
  if (day.as_of === null) return null;
  if (rows.length === 0) return <p>Nothing differs, to the second.</p>;
  const cut = day.accounts.reduce((sum, account) => sum + account.cut_count, 0);
  return (
    <>
      <DataTable
        label="Differences"
        rows={rows}
        rowKey={(_, i) => i}
        columns={[
          {
            header: "Job",
            isHeading: true,
            cell: ({ account, difference }) => <Run difference={difference} team={account.team} />,
          },
          {
            header: "Team or account",
            cell: ({ account }) => (
              <>
                {account.team ?? account.account}
                <span className="faint"> · {account.pool}</span>
              </>
            ),
          },
          { header: "Why", cell: ({ difference }) => CAUSES[difference.cause] },
          {
            header: <>Cluster has more, {deviceTime(head, "s")}</>,
            isRight: true,
            cell: ({ account, difference }) => (
              <>
                {formatGpuSeconds(difference.mgpu_s)}
                {account.device !== head && ` ${deviceTime(account.device, "s")}`}
              </>
            ),
          },
          {
            header: "Meter",
            only: "wide",
            cell: ({ difference }) => span(difference.metered_start, difference.metered_end),
          },
          {
            header: "Cluster",
            only: "wide",
            cell: ({ difference }) => span(difference.accounted_start, difference.accounted_end),
          },
        ]}
      />
      {cut > 0 && (
        <p className="small faint">{formatCount(cut)} smaller ones are not listed; they are in the sums.</p>
      )}
    </>
  );
}

/** The job if there is one here, else what the cluster calls it. */
function Run({ difference, team }: { difference: Difference; team: string | null }) {
  const session = useSession();
  const name = `${difference.native_id ?? "?"}${difference.user && ` of ${difference.user}`}`;
  if (difference.job === null || team === null || !may(session, "view_jobs", team)) return name;
  return (
    <Link to="/jobs/$jobId" params={{ jobId: difference.job }} search={{ tab: "attempts" }}>
      {name}
    </Link>
  );
}

function span(start: string | null, end: string | null): string {
  if (start === null) return "–";
  return `${formatExact(new Date(start))} to ${end === null ? "now" : formatExact(new Date(end))}`;
}
