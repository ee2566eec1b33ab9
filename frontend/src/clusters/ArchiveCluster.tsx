import { Button, Modal } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { client, unwrap } from "../api/client";
import { workOnClusterQuery } from "../api/queries";
import type { Archiving, Cluster, Work } from "../api/types";
import { WorkForm } from "../jobs/WorkForm";
import { CliLine } from "../ui/CliLine";
import { Lines, QueryView } from "../ui/states";
import { Time } from "../ui/Time";
import { toastDone, toastError } from "../ui/toast";
import { useReturnFocus } from "../ui/useReturnFocus";

/** Archive or restore a cluster, for those who manage clusters. */
export function ArchiveCluster({ cluster }: { cluster: Cluster }) {
  const [isAsked, setAsked] = useState(false);
  return (
    <section aria-label="Archive">
      <h2>Archive</h2>
      {cluster.archived_at === null ? (
        <>
          <p className="dim">Nothing new starts on an archived cluster, and its GPUs count no more. History and bills stay.</p>
          <Button variant="default" c="var(--bad)" onClick={() => setAsked(true)}>
            Archive…
          </Button>
        </>
      ) : (
        <Restore cluster={cluster} archivedAt={cluster.archived_at} />
      )}
      {isAsked && <ArchiveDialog cluster={cluster} onClose={() => setAsked(false)} />}
    </section>
  );
}

function ArchiveDialog({ cluster, onClose }: { cluster: Cluster; onClose: () => void }) {
  useReturnFocus();
  const work = useQuery(workOnClusterQuery(cluster.id));
  return (
    <Modal
      opened
      onClose={onClose}
      size="lg"
      title={`Archive ${cluster.name}?`}
      closeButtonProps={{ "aria-label": "Close" }}
    >
      <QueryView query={work} loading={<Lines count={4} label="Loading its jobs" />}>
        {(found) => <ArchiveForm cluster={cluster} work={found} onClose={onClose} />}
      </QueryView>
    </Modal>
  );
}

function ArchiveForm({ cluster, work, onClose }: { cluster: Cluster; work: Work; onClose: () => void }) {
  const changed = useChanged();
  const archive = useMutation({
    mutationFn: (body: Archiving) =>
      unwrap(
        client.POST("/api/v1/clusters/{cluster_id}/archive", { params: { path: { cluster_id: cluster.id } }, body }),
      ),
    onSuccess: () => {
      toastDone(`${cluster.name} is archived`);
      changed();
      onClose();
    },
    onError: toastError,
  });
  return (
    <WorkForm
      work={work}
      until="the restore"
      command={`tidegate cluster archive ${cluster.name}`}
      confirmLabel="Archive"
      isBusy={archive.isPending}
      onConfirm={archive.mutate}
      onClose={onClose}
    >
      Nothing new starts there. What runs on is metered until it ends. Waiting jobs are those pinned to this cluster.
    </WorkForm>
  );
}

function Restore({ cluster, archivedAt }: { cluster: Cluster; archivedAt: string }) {
  const changed = useChanged();
  const restore = useMutation({
    mutationFn: () =>
      unwrap(client.POST("/api/v1/clusters/{cluster_id}/restore", { params: { path: { cluster_id: cluster.id } } })),
    onSuccess: () => {
      toastDone(`${cluster.name} is restored`);
      changed();
    },
    onError: toastError,
  });
  return (
    <>
      <p className="dim">
        Archived <Time at={archivedAt} show="both" />. Nothing starts here.
      </p>
      <Button variant="default" loading={restore.isPending} onClick={() => restore.mutate()}>
        Restore
      </Button>
      <CliLine command={`tidegate cluster restore ${cluster.name}`} />
    </>
  );
}

/** Read anew what an archiving changes. */
function useChanged(): () => void {
  const queryClient = useQueryClient();
  return () => {
    for (const key of ["clusters", "nodes", "pools", "quotas", "jobs"]) {
      void queryClient.invalidateQueries({ queryKey: [key] });
    }
  };
}
