import { Button } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";

import { ApiError, client, unwrap } from "../api/client";
import { jobArrayQuery } from "../api/queries";
import type { JobArray } from "../api/types";
import { Card } from "../ui/Card";
import { Confirm } from "../ui/Confirm";
import { Lines, QueryView } from "../ui/states";
import { Time } from "../ui/Time";
import { toastDone, toastError } from "../ui/toast";
import "./job-table.css";
import { JOB_STATES, stateTone, stateWord } from "./words";

/** An array as a whole: of a task's page with its `index`, above the list of its tasks with a way out. */
export function ArrayCard({ id, index, onClear }: { id: string; index?: number; onClear?: () => void }) {
  const array = useQuery(jobArrayQuery(id));
  const isGone = array.error instanceof ApiError && array.error.status < 500;
  return (
    <Card label="Array" className={onClear ? "above-list" : undefined}>
      {isGone ? (
        <p className="dim">There is no such array that you can see.</p>
      ) : (
        <QueryView query={array} loading={<Lines count={2} label="Loading the array" />}>
          {(data) => <Counted array={data} index={index} onClear={onClear} />}
        </QueryView>
      )}
      {isGone && onClear && <ClearButton onClear={onClear} />}
    </Card>
  );
}

function ClearButton({ onClear }: { onClear: () => void }) {
  return (
    <Button variant="default" size="xs" onClick={onClear}>
      Show other jobs too
    </Button>
  );
}

function Counted({
  array,
  index,
  onClear,
}: {
  array: JobArray;
  index: number | undefined;
  onClear: (() => void) | undefined;
}) {
  const [isAsked, setAsked] = useState(false);
  const queryClient = useQueryClient();
  const cancel = useMutation({
    mutationFn: () =>
      unwrap(client.POST("/api/v1/job-arrays/{array_id}/cancel", { params: { path: { array_id: array.id } } })),
    onSuccess: (changed) => {
      queryClient.setQueryData(jobArrayQuery(array.id).queryKey, changed);
      void queryClient.invalidateQueries({ queryKey: ["jobs"] });
      toastDone(`All tasks of ${array.name} are being cancelled`);
    },
    onError: toastError,
    onSettled: () => setAsked(false),
  });
  const states = JOB_STATES.filter((state) => (array.counts[state] ?? 0) > 0);
  const tasks = array.size === 1 ? "1 task" : `${array.size.toLocaleString("en")} tasks`;
  return (
    <>
      <h2>
        Array {array.name}[{array.indices}]
      </h2>
      <p>
        {index === undefined ? tasks : `Index ${index} · ${tasks}`}
        {array.max_running !== null && `, at most ${array.max_running.toLocaleString("en")} at once`}
        {` · ${array.pools.join(", else ")}`}
        {array.last_ended_at !== null && (
          <>
            {" "}
            · last end <Time at={array.last_ended_at} />
          </>
        )}
      </p>
      <ul className="state-counts" aria-label="Tasks by state">
        {states.map((state) => (
          <li key={state}>
            <Link to="/jobs" search={{ array: array.id, state }} className={`pill ${stateTone(state)}`}>
              {array.counts[state]} {stateWord(state)}
            </Link>
          </li>
        ))}
      </ul>
      <div className="inline gap">
        {index !== undefined && (
          <Link to="/jobs" search={{ array: array.id }}>
            All tasks
          </Link>
        )}
        {array.can.includes("cancel") && (
          <Button variant="default" size="xs" c="var(--bad)" onClick={() => setAsked(true)}>
            Cancel all
          </Button>
        )}
        {onClear && <ClearButton onClear={onClear} />}
      </div>
      <Confirm
        isOpen={isAsked}
        title={`Cancel all tasks of ${array.name}?`}
        isBusy={cancel.isPending}
        isDangerous
        confirmLabel="Cancel them"
        onConfirm={() => cancel.mutate()}
        onClose={() => setAsked(false)}
      >
        Those that wait leave the queue, and those that run are stopped. Those that have ended stay as they
        are. This cannot be undone.
      </Confirm>
    </>
  );
}
