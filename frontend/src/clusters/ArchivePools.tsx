import { Button, Modal, TextInput } from "@mantine/core";
import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { client, unwrap } from "../api/client";
import { poolsQuery, workInPoolQuery } from "../api/queries";
import type { Pool } from "../api/types";
import { WorkDialog } from "../jobs/WorkDialog";
import { Card } from "../ui/Card";
import { CliLine } from "../ui/CliLine";
import { DataTable } from "../ui/DataTable";
import { Lines, QueryView } from "../ui/states";
import { Time } from "../ui/Time";
import { toastDone, toastError } from "../ui/toast";
import { DEVICE_WORDS, formatGpus } from "../ui/units";
import { useReturnFocus } from "../ui/useReturnFocus";
import { useFleetChanged } from "./useFleetChanged";

/** All pools, to archive and restore, for those who manage clusters. */
export function ArchivePools() {
  const pools = useQuery(poolsQuery);
  const [asked, setAsked] = useState<Pool>();
  const [named, setNamed] = useState<Pool>();
  return (
    <Card label="Pools">
      <h2>Pools</h2>
      <p className="dim">Nothing new starts in an archived pool, and its capacity no longer counts. History, bills and quotas stay.</p>
      <QueryView query={pools} loading={<Lines count={3} label="Loading pools" />}>
        {(items) => (
          <DataTable
            label="All pools"
            rows={items}
            rowKey={(pool) => pool.id}
            columns={[
              { header: "Pool", isHeading: true, cell: (pool) => pool.name },
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
                header: "Also called",
                cell: (pool) => (
                  <span className="inline">
                    {pool.aliases.length > 0 && <span>{pool.aliases.join(", ")}</span>}
                    <Button
                      variant="default"
                      size="xs"
                      aria-label={`Change the other names of ${pool.name}…`}
                      onClick={() => setNamed(pool)}
                    >
                      Change…
                    </Button>
                  </span>
                ),
              },
              {
                header: <span className="visually-hidden">Actions</span>,
                isRight: true,
                cell: (pool) =>
                  pool.archived_at === null ? (
                    <Button
                      variant="default"
                      size="xs"
                      c="var(--bad)"
                      aria-label={`Archive ${pool.name}…`}
                      onClick={() => setAsked(pool)}
                    >
                      Archive…
                    </Button>
                  ) : (
                    <Restore pool={pool} />
                  ),
              },
            ]}
          />
        )}
      </QueryView>
      {named && <AliasDialog pool={named} onClose={() => setNamed(undefined)} />}
      {asked && <ArchiveDialog pool={asked} onClose={() => setAsked(undefined)} />}
    </Card>
  );
}

function AliasDialog({ pool, onClose }: { pool: Pool; onClose: () => void }) {
  useReturnFocus();
  const changed = useFleetChanged();
  const [text, setText] = useState(pool.aliases.join(", "));
  const aliases = text.split(",").flatMap((name) => name.trim() || []);
  const save = useMutation({
    mutationFn: () =>
      unwrap(client.PATCH("/api/v1/pools/{pool_id}", { params: { path: { pool_id: pool.id } }, body: { aliases } })),
    onSuccess: () => {
      toastDone(`${pool.name} has its other names`);
      changed();
      onClose();
    },
  });
  return (
    <Modal opened onClose={onClose} title={`Other names of ${pool.name}`} closeButtonProps={{ "aria-label": "Close" }}>
      <form
        className="stack"
        onSubmit={(event) => {
          event.preventDefault();
          save.mutate();
        }}
      >
        <TextInput
          label="Aliases"
          description="Names of its GPUs on clusters, with commas between them: nvidia_h100_80gb_hbm3, h100-sxm. Case does not matter, and _ is -."
          value={text}
          onChange={(event) => {
            setText(event.currentTarget.value);
            save.reset();
          }}
          error={save.error?.message}
          data-autofocus
        />
        <CliLine command={`tidegate pool alias ${pool.name} --add ALIAS`} />
        <div className="inline end">
          <Button variant="default" onClick={onClose}>
            Back
          </Button>
          <Button type="submit" loading={save.isPending}>
            Save
          </Button>
        </div>
      </form>
    </Modal>
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
    <>
      <Button
        variant="default"
        size="xs"
        aria-label={`Restore ${pool.name}`}
        loading={restore.isPending}
        onClick={() => restore.mutate()}
      >
        Restore
      </Button>
      <CliLine command={`tidegate pool restore ${pool.name}`} />
    </>
  );
}
