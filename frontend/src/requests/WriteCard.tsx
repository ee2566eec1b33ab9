import { Button, Textarea } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { client, unwrapTagged } from "../api/client";
import type { ChangeRequestDetail, GuardedWrite } from "../api/types";
import { Card } from "../ui/Card";
import { CliLine } from "../ui/CliLine";
import { DataTable } from "../ui/DataTable";
import { Fact, Facts } from "../ui/Facts";
import { Time } from "../ui/Time";
import { toastDone } from "../ui/toast";
import { formatCount, formatGpuHours, formatGpus } from "../ui/units";
import { quotaChanges, ruleChanges } from "./words";

const REASON_MAX = 500;

/** The effects of a change that waits for a second person, as they were previewed last. */
export function WriteCard({ request, write, etag }: { request: ChangeRequestDetail; write: GuardedWrite; etag: string }) {
  const settings = [...quotaChanges(write), ...ruleChanges(write)];
  return (
    <Card label="Effects" className="stack">
      <h2>Effects</h2>
      <p className="small faint">
        Previewed <Time at={write.measured_at} />. If quotas or jobs move, the preview is made again before an approval.
      </p>
      <Facts isLeft>
        <Fact name="Running jobs stopped">{formatCount(write.stopped_jobs)}</Fact>
        <Fact name="GPUs moved">{formatGpus(write.moved_mgpu)}</Fact>
      </Facts>
      {settings.length > 0 && (
        <DataTable
          label="Changed settings"
          rows={settings}
          rowKey={({ of, setting }) => `${of} ${setting}`}
          columns={[
            { header: "Of", cell: ({ of }) => of },
            { header: "Setting", cell: ({ setting }) => setting },
            { header: "Before", cell: ({ before }) => before },
            { header: "After", cell: ({ after }) => <b>{after}</b> },
          ]}
        />
      )}
      {write.stopped.length > 0 && (
        <DataTable
          label="Stopped jobs"
          rows={write.stopped}
          rowKey={({ team, pool }) => `${team} ${pool}`}
          columns={[
            { header: "Team", cell: ({ team }) => (team === "" ? "other organizations" : team) },
            { header: "Pool", cell: ({ pool }) => pool },
            { header: "Jobs", isRight: true, cell: ({ jobs }) => formatCount(jobs) },
            { header: "Work at risk", isRight: true, cell: ({ at_risk_mgpu_s }) => formatGpuHours(at_risk_mgpu_s) },
          ]}
        />
      )}
      {write.may_override && <Override request={request} etag={etag} />}
    </Card>
  );
}

function Override({ request, etag }: { request: ChangeRequestDetail; etag: string }) {
  const queryClient = useQueryClient();
  const [reason, setReason] = useState("");
  const override = useMutation({
    mutationFn: () =>
      unwrapTagged(
        client.POST("/api/v1/requests/{request_id}/override", {
          params: { path: { request_id: request.id }, header: { "If-Match": etag } },
          body: { reason: reason.trim() },
        }),
      ),
    onSuccess: () => {
      toastDone("The change is made. The others are told.");
      void queryClient.invalidateQueries({ queryKey: ["quotas"] });
    },
    onSettled: () => queryClient.invalidateQueries({ queryKey: ["requests"] }),
  });
  return (
    <form
      className="stack"
      onSubmit={(event) => {
        event.preventDefault();
        if (reason.trim() !== "") override.mutate();
      }}
    >
      <h3>Emergency</h3>
      <Textarea
        label="Why it cannot wait"
        description="Recorded, and sent to everybody who could have decided."
        autosize
        minRows={1}
        maxLength={REASON_MAX}
        value={reason}
        onChange={(event) => setReason(event.currentTarget.value)}
      />
      {override.error && (
        <p className="bad-text" role="alert">
          {override.error.message}
        </p>
      )}
      <div className="inline">
        <Button type="submit" color="red" loading={override.isPending} disabled={reason.trim() === ""}>
          Make the change without a second person
        </Button>
      </div>
      <p className="small">
        <CliLine command={`tidegate requests override ${request.id.slice(-8)} --reason "${reason.trim() || "..."}"`} />
      </p>
    </form>
  );
}
