import { Button } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { client, unwrap } from "../api/client";
import type { Schedule } from "../api/types";
import { Confirm } from "../ui/Confirm";
import { toastDone, toastError } from "../ui/toast";

/** Suspends, resumes or deletes a schedule. */
export function ScheduleActions({ schedule, onDeleted }: { schedule: Schedule; onDeleted?: () => void }) {
  const queryClient = useQueryClient();
  const [isAsking, setAsking] = useState(false);
  const params = { path: { schedule_id: schedule.id } };
  const renew = () => queryClient.invalidateQueries({ queryKey: ["jobs", "schedules"] });
  const suspend = useMutation({
    mutationFn: (isSuspended: boolean) =>
      unwrap(client.PATCH("/api/v1/schedules/{schedule_id}", { params, body: { is_suspended: isSuspended } })),
    onSuccess: (found) => {
      toastDone(found.is_suspended ? `${found.name} is suspended` : `${found.name} is resumed`);
      return renew();
    },
    onError: toastError,
  });
  const remove = useMutation({
    mutationFn: async () => {
      await unwrap(client.DELETE("/api/v1/schedules/{schedule_id}", { params }));
    },
    onSuccess: () => {
      setAsking(false);
      toastDone(`${schedule.name} is deleted`);
      onDeleted?.();
      return renew();
    },
    onError: toastError,
  });
  const isSuspended = schedule.can.includes("resume");
  if (schedule.can.length === 0) return <span className="faint">none</span>;
  return (
    <div className="inline">
      <Button
        size="xs"
        variant="default"
        loading={suspend.isPending}
        aria-label={`${isSuspended ? "Resume" : "Suspend"} ${schedule.name}`}
        onClick={() => suspend.mutate(!isSuspended)}
      >
        {isSuspended ? "Resume" : "Suspend"}
      </Button>
      <Button size="xs" variant="default" aria-label={`Delete ${schedule.name}`} onClick={() => setAsking(true)}>
        Delete
      </Button>
      <Confirm
        title={`Delete the schedule ${schedule.name}?`}
        isOpen={isAsking}
        isBusy={remove.isPending}
        confirmLabel="Delete"
        isDangerous
        onConfirm={() => remove.mutate()}
        onClose={() => setAsking(false)}
      >
        It has no more runs. Its jobs stay, and go on.
      </Confirm>
    </div>
  );
}
