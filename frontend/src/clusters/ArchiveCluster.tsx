import { Button } from "@mantine/core";
import { useMutation, useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";

import { client, unwrap } from "../api/client";
import { workOnClusterQuery } from "../api/queries";
import type { Cluster } from "../api/types";
import { WorkDialog } from "../jobs/WorkDialog";
import { CliLine } from "../ui/CliLine";
import { Confirm } from "../ui/Confirm";
import { Time } from "../ui/Time";
import { toastDone, toastError } from "../ui/toast";
import { useFleetChanged } from "./useFleetChanged";

/** Archive, restore or delete a cluster, for those who manage clusters. */
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
      {cluster.seen_at === null && <DeleteCluster cluster={cluster} />}
      {isAsked && <ArchiveDialog cluster={cluster} onClose={() => setAsked(false)} />}
    </section>
  );
}

/** Deletes a cluster that never answered. */
function DeleteCluster({ cluster }: { cluster: Cluster }) {
  const [isAsked, setAsked] = useState(false);
  const navigate = useNavigate();
  const changed = useFleetChanged();
  const remove = useMutation({
    mutationFn: () =>
      unwrap(client.DELETE("/api/v1/clusters/{cluster_id}", { params: { path: { cluster_id: cluster.id } } })),
    onSuccess: async () => {
      toastDone(`${cluster.name} is deleted`);
      await navigate({ to: "/clusters" });
      changed();
    },
    onError: toastError,
    onSettled: () => setAsked(false),
  });
  return (
    <>
      <p className="dim">This cluster never answered, so it can be deleted.</p>
      <Button variant="default" c="var(--bad)" onClick={() => setAsked(true)}>
        Delete…
      </Button>
      <Confirm
        title={`Delete ${cluster.name}?`}
        isOpen={isAsked}
        isBusy={remove.isPending}
        confirmLabel="Delete"
        isDangerous
        onConfirm={() => remove.mutate()}
        onClose={() => setAsked(false)}
      >
        <p>Its options are deleted, too.</p>
        <CliLine command={`tidegate cluster delete ${cluster.name}`} />
      </Confirm>
    </>
  );
}

function ArchiveDialog({ cluster, onClose }: { cluster: Cluster; onClose: () => void }) {
  return (
    <WorkDialog
      title={`Archive ${cluster.name}?`}
      work={useQuery(workOnClusterQuery(cluster.id))}
      act={(body) =>
        unwrap(
          client.POST("/api/v1/clusters/{cluster_id}/archive", { params: { path: { cluster_id: cluster.id } }, body }),
        )
      }
      done={`${cluster.name} is archived`}
      onDone={useFleetChanged()}
      until="the restore"
      command={`tidegate cluster archive ${cluster.name}`}
      confirmLabel="Archive"
      onClose={onClose}
    >
      Nothing new starts there. What runs on is metered until it ends. Waiting jobs are those pinned to this cluster.
    </WorkDialog>
  );
}

function Restore({ cluster, archivedAt }: { cluster: Cluster; archivedAt: string }) {
  const changed = useFleetChanged();
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
