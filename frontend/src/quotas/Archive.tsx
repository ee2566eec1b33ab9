import { Button, Modal, Radio } from "@mantine/core";
import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { client, unwrap } from "../api/client";
import { treeQuery, workToArchiveQuery } from "../api/queries";
import type { Archiving, OpenWork, TreeNode } from "../api/types";
import { may } from "../session/access";
import { useSession } from "../session/useSession";
import { CliLine } from "../ui/CliLine";
import { Lines, QueryView } from "../ui/states";
import { Time } from "../ui/Time";
import { toastDone, toastError } from "../ui/toast";
import { formatCount } from "../ui/units";
import { useReturnFocus } from "../ui/useReturnFocus";
import { RunningJobs } from "./RunningJobs";
import { useTreeChanged } from "./useTreeChanged";

/** Archive or restore the node at `path`. Nothing for a reader who may do neither. */
export function Archive({ path }: { path: string }) {
  const session = useSession();
  const tree = useQuery(treeQuery);
  const [isAsked, setAsked] = useState(false);
  const node = tree.data?.find((each) => each.path === path);
  // An organization is archived by platform administrators only.
  if (node === undefined || !may(session, "manage_structure", node.parent === null ? "" : path)) return null;
  return (
    <section aria-label="Archive">
      <h2>Archive</h2>
      {node.archived_at === null ? (
        <>
          <p className="dim">Nothing new starts in an archived {node.kind}. History and bills stay.</p>
          <Button variant="default" c="var(--bad)" onClick={() => setAsked(true)}>
            Archive…
          </Button>
          {isAsked && <ArchiveDialog node={node} onClose={() => setAsked(false)} />}
        </>
      ) : (
        <Restore node={node} parent={tree.data?.find((each) => each.path === node.parent)} />
      )}
    </section>
  );
}

/** Shows what runs there first, and asks what becomes of it. */
function ArchiveDialog({ node, onClose }: { node: TreeNode; onClose: () => void }) {
  useReturnFocus();
  const work = useQuery(workToArchiveQuery(node.id));
  return (
    <Modal
      opened
      onClose={onClose}
      size="lg"
      title={`Archive ${node.path}?`}
      closeButtonProps={{ "aria-label": "Close" }}
    >
      <QueryView query={work} loading={<Lines count={4} label="Loading its jobs" />}>
        {(found) => <ArchiveForm node={node} work={found} onClose={onClose} />}
      </QueryView>
    </Modal>
  );
}

function ArchiveForm({ node, work, onClose }: { node: TreeNode; work: OpenWork; onClose: () => void }) {
  const changed = useTreeChanged();
  const [running, setRunning] = useState<Archiving["running"]>();
  const [waiting, setWaiting] = useState<Archiving["waiting"]>();
  const archive = useMutation({
    mutationFn: () =>
      unwrap(
        client.POST("/api/v1/tree/{tree_node_id}/archive", {
          params: { path: { tree_node_id: node.id } },
          body: { running, waiting },
        }),
      ),
    onSuccess: () => {
      toastDone(`${node.path} is archived`);
      changed();
      onClose();
    },
    onError: toastError,
  });
  const jobs = (count: number) => (count === 1 ? "job" : "jobs");
  const isUndecided = (work.running > 0 && running === undefined) || (work.waiting > 0 && waiting === undefined);
  return (
    <div className="stack">
      <p>
        Nobody submits jobs to it, and nothing that waits there starts.
        {node.kind !== "team" && " Everything below it is archived with it."}
      </p>
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
            <Radio value="wait" label="Wait until the restore" />
            <Radio value="cancel" label="Cancel" />
          </div>
        </Radio.Group>
      )}
      {work.running === 0 && work.waiting === 0 && <p className="dim">No job runs or waits there.</p>}
      <CliLine command={`tidegate tree archive ${node.path}`} />
      <div className="inline end">
        <Button variant="default" onClick={onClose} data-autofocus>
          Back
        </Button>
        <Button color="red" disabled={isUndecided} loading={archive.isPending} onClick={() => archive.mutate()}>
          Archive
        </Button>
      </div>
    </div>
  );
}

function Restore({ node, parent }: { node: TreeNode; parent: TreeNode | undefined }) {
  const changed = useTreeChanged();
  const restore = useMutation({
    mutationFn: () =>
      unwrap(client.POST("/api/v1/tree/{tree_node_id}/restore", { params: { path: { tree_node_id: node.id } } })),
    onSuccess: () => {
      toastDone(`${node.path} is restored`);
      changed();
    },
    onError: toastError,
  });
  return (
    <>
      <p className="dim">
        Archived <Time at={node.archived_at ?? ""} show="both" />. Nothing is submitted or starts here.
      </p>
      {parent?.archived_at ? (
        <p className="dim">{parent.path} is archived, too. Restore it first.</p>
      ) : (
        <Button variant="default" loading={restore.isPending} onClick={() => restore.mutate()}>
          Restore
        </Button>
      )}
      <CliLine command={`tidegate tree restore ${node.path}`} />
    </>
  );
}
