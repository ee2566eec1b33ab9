import { Button, Modal, Radio } from "@mantine/core";
import { useMutation, type UseQueryResult } from "@tanstack/react-query";
import { useState, type ReactNode } from "react";

import type { Archiving, Work } from "../api/types";
import { CliLine } from "../ui/CliLine";
import { Lines, QueryView } from "../ui/states";
import { toastDone, toastError } from "../ui/toast";
import { formatCount } from "../ui/units";
import { useReturnFocus } from "../ui/useReturnFocus";
import { RunningJobs } from "./RunningJobs";

interface Asked {
  children: ReactNode;
  /** What waiting jobs wait for: "the restore". */
  until: string;
  /** Said where no job is open. */
  none?: string;
  /** The same on the command line; what is chosen here is added to it. */
  command: string;
  confirmLabel: string;
  onClose: () => void;
}

/** Shows the jobs that an archiving or a deactivation ends or withholds, asks what becomes of them, and does it. */
export function WorkDialog({
  title,
  work,
  act,
  done,
  onDone,
  ...asked
}: Asked & {
  title: string;
  work: UseQueryResult<Work>;
  act: (decided: Archiving) => Promise<unknown>;
  /** Said once it is done: "nlp is archived". */
  done: string;
  onDone: () => void;
}) {
  useReturnFocus();
  const doing = useMutation({
    mutationFn: act,
    onSuccess: () => {
      toastDone(done);
      onDone();
      asked.onClose();
    },
    onError: toastError,
  });
  return (
    <Modal opened onClose={asked.onClose} size="lg" title={title} closeButtonProps={{ "aria-label": "Close" }}>
      <QueryView query={work} loading={<Lines count={4} label="Loading its jobs" />}>
        {(found) => <WorkForm {...asked} work={found} isBusy={doing.isPending} onConfirm={doing.mutate} />}
      </QueryView>
    </Modal>
  );
}

function WorkForm({
  work,
  children,
  until,
  none = "No job runs or waits there.",
  command,
  confirmLabel,
  isBusy,
  onConfirm,
  onClose,
}: Asked & { work: Work; isBusy: boolean; onConfirm: (decided: Archiving) => void }) {
  const [running, setRunning] = useState<Archiving["running"]>();
  const [waiting, setWaiting] = useState<Archiving["waiting"]>();
  const jobs = (count: number) => (count === 1 ? "job" : "jobs");
  const isUndecided = (work.running > 0 && running === undefined) || (work.waiting > 0 && waiting === undefined);
  return (
    <div className="stack">
      <p>{children}</p>
      {work.running > 0 && (
        <>
          <RunningJobs work={work} />
          <Radio.Group
            label={`${formatCount(work.running)} running ${jobs(work.running)}`}
            value={running ?? ""}
            onChange={(value) => setRunning(value as Archiving["running"])}
          >
            <div className="stack" style={{ marginTop: 6 }}>
              <Radio value="end" label="Run to the end" />
              <Radio value="cancel" label="Cancel, with grace" />
            </div>
          </Radio.Group>
        </>
      )}
      {work.waiting > 0 && (
        <Radio.Group
          label={`${formatCount(work.waiting)} waiting ${jobs(work.waiting)}`}
          value={waiting ?? ""}
          onChange={(value) => setWaiting(value as Archiving["waiting"])}
        >
          <div className="stack" style={{ marginTop: 6 }}>
            <Radio value="wait" label={`Wait until ${until}`} />
            <Radio value="cancel" label="Cancel" />
          </div>
        </Radio.Group>
      )}
      {work.running === 0 && work.waiting === 0 && <p className="dim">{none}</p>}
      <CliLine command={[command, running && `--running ${running}`, waiting && `--waiting ${waiting}`].filter(Boolean).join(" ")} />
      <div className="inline end">
        <Button variant="default" onClick={onClose} data-autofocus>
          Back
        </Button>
        <Button color="red" disabled={isUndecided} loading={isBusy} onClick={() => onConfirm({ running, waiting })}>
          {confirmLabel}
        </Button>
      </div>
    </div>
  );
}
