import { Button } from "@mantine/core";
import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { client, unwrap } from "../api/client";
import { poolsQuery, workInPoolQuery } from "../api/queries";
import type { Cluster, Pool } from "../api/types";
import { WorkDialog } from "../jobs/WorkDialog";
import { Card } from "../ui/Card";
import { CliLine } from "../ui/CliLine";
import { Confirm } from "../ui/Confirm";
import { DataTable } from "../ui/DataTable";
import { Lines, QueryView } from "../ui/states";
import { Time } from "../ui/Time";
import { toastDone, toastError } from "../ui/toast";
import { DEVICE_WORDS, formatCount, formatGpus } from "../ui/units";
import { useReturnFocus } from "../ui/useReturnFocus";
import { PoolDialog } from "./PoolDialog";
import { useFleetChanged } from "./useFleetChanged";

/** All pools: to add, change, archive, restore and delete, for those who manage clusters. */
export function Pools({ clusters }: { clusters: readonly Cluster[] }) {
  const pools = useQuery(poolsQuery);
  const [asked, setAsked] = useState<{ act: "change" | "archive" | "delete"; pool: Pool }>();
  const [isAdding, setAdding] = useState(false);
  const close = () => setAsked(undefined);
  return (
    <Card label="Pools">
      <div className="spread">
        <h2>Pools</h2>
        <Button variant="default" size="xs" onClick={() => setAdding(true)}>
          Add a pool…
        </Button>
      </div>
      <p className="dim">
        A pool has devices of one kind. Its capacity is what clusters report under its name. Nothing new starts in an
        archived pool; history, bills and quotas stay.
      </p>
      <QueryView query={pools} loading={<Lines count={3} label="Loading pools" />}>
        {(items) =>
          items.length === 0 ? (
            <p className="dim">No pools yet. Clusters count once their pools are added here.</p>
          ) : (
            <DataTable
              label="All pools"
              rows={items}
              rowKey={(pool) => pool.id}
              columns={[
                {
                  header: "Pool",
                  isHeading: true,
                  className: "breaks",
                  cell: (pool) => (
                    <>
                      {pool.name} {pool.description && <div className="dim">{pool.description}</div>}
                    </>
                  ),
                },
                {
                  header: "Healthy",
                  cell: (pool) =>
                    pool.archived_at === null ? (
                      `${formatGpus(pool.capacity_mgpu)} ${DEVICE_WORDS[pool.device]}`
                    ) : (
                      <span className="dim">
                        Archived <Time at={pool.archived_at} show="both" />
                      </span>
                    ),
                },
                {
                  header: "Guaranteed",
                  isRight: true,
                  only: "wide",
                  cell: (pool) => (pool.guaranteed_mgpu === null ? "–" : formatGpus(pool.guaranteed_mgpu)),
                  tone: (pool) => (pool.is_overcommitted ? "bad-text" : undefined),
                },
                { header: "Worth", isRight: true, only: "wide", cell: (pool) => formatCount(pool.weight) },
                {
                  header: "Reported by",
                  only: "wide",
                  className: "breaks",
                  cell: (pool) => offering(clusters, pool.name).join(", ") || <span className="dim">no cluster</span>,
                },
                { header: "Also called", only: "wide", className: "breaks", cell: (pool) => pool.aliases.join(", ") },
                {
                  header: <span className="visually-hidden">Actions</span>,
                  isRight: true,
                  cell: (pool) => (
                    <span className="inline end">
                      <Button
                        variant="default"
                        size="xs"
                        aria-label={`Change ${pool.name}…`}
                        onClick={() => setAsked({ act: "change", pool })}
                      >
                        Change…
                      </Button>
                      {pool.archived_at === null ? (
                        <Button
                          variant="default"
                          size="xs"
                          c="var(--bad)"
                          aria-label={`Archive ${pool.name}…`}
                          onClick={() => setAsked({ act: "archive", pool })}
                        >
                          Archive…
                        </Button>
                      ) : (
                        <Restore pool={pool} />
                      )}
                      <Button
                        variant="default"
                        size="xs"
                        c="var(--bad)"
                        aria-label={`Delete ${pool.name}…`}
                        onClick={() => setAsked({ act: "delete", pool })}
                      >
                        Delete…
                      </Button>
                    </span>
                  ),
                },
              ]}
            />
          )
        }
      </QueryView>
      <CliLine command="tidegate pool list" />
      {isAdding && <PoolDialog onClose={() => setAdding(false)} />}
      {asked?.act === "change" && <PoolDialog pool={asked.pool} onClose={close} />}
      {asked?.act === "archive" && <ArchiveDialog pool={asked.pool} onClose={close} />}
      {asked?.act === "delete" && <DeleteDialog pool={asked.pool} onClose={close} />}
    </Card>
  );
}

/** The names of the clusters that report nodes of a pool. */
function offering(clusters: readonly Cluster[], pool: string): string[] {
  return clusters.filter(({ pools }) => pools.some((part) => part.pool === pool)).map(({ name }) => name);
}

/** Deletes a pool that was never used. A refusal says what uses it, and what to do instead. */
function DeleteDialog({ pool, onClose }: { pool: Pool; onClose: () => void }) {
  useReturnFocus();
  const changed = useFleetChanged();
  const remove = useMutation({
    mutationFn: () => unwrap(client.DELETE("/api/v1/pools/{pool_id}", { params: { path: { pool_id: pool.id } } })),
    onSuccess: () => {
      toastDone(`${pool.name} is deleted`);
      changed();
      onClose();
    },
  });
  return (
    <Confirm
      title={`Delete ${pool.name}?`}
      isOpen
      isBusy={remove.isPending}
      confirmLabel="Delete"
      isDangerous
      isDisabled={remove.isError}
      onConfirm={() => remove.mutate()}
      onClose={onClose}
    >
      <p>Only a pool that never had nodes, quotas, jobs or prices can be deleted.</p>
      {remove.error && (
        <p className="bad-text breaks" role="alert">
          {remove.error.message}
        </p>
      )}
      <CliLine command={`tidegate pool delete ${pool.name}`} />
    </Confirm>
  );
}

function ArchiveDialog({ pool, onClose }: { pool: Pool; onClose: () => void }) {
  return (
    <WorkDialog
      title={`Archive ${pool.name}?`}
      work={useQuery(workInPoolQuery(pool.id))}
      act={(body) =>
        unwrap(client.POST("/api/v1/pools/{pool_id}/archive", { params: { path: { pool_id: pool.id } }, body }))
      }
      done={`${pool.name} is archived`}
      onDone={useFleetChanged()}
      until="the restore"
      command={`tidegate pool archive ${pool.name}`}
      confirmLabel="Archive"
      onClose={onClose}
    >
      Nothing new starts in it, and its quotas may not be raised. What runs on is metered until it ends. Jobs that accept
      another pool start there.
    </WorkDialog>
  );
}

function Restore({ pool }: { pool: Pool }) {
  const changed = useFleetChanged();
  const restore = useMutation({
    mutationFn: () =>
      unwrap(client.POST("/api/v1/pools/{pool_id}/restore", { params: { path: { pool_id: pool.id } } })),
    onSuccess: () => {
      toastDone(`${pool.name} is restored`);
      changed();
    },
    onError: toastError,
  });
  return (
    <Button
      variant="default"
      size="xs"
      aria-label={`Restore ${pool.name}`}
      loading={restore.isPending}
      onClick={() => restore.mutate()}
    >
      Restore
    </Button>
  );
}
