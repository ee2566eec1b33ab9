import { Button, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { ApiError, client, unwrap } from "../api/client";
import { clusterUsersQuery } from "../api/queries";
import type { Cluster, ClusterUser } from "../api/types";
import { Confirm } from "../ui/Confirm";
import { DataTable } from "../ui/DataTable";
import { Empty, Lines, QueryView } from "../ui/states";
import { toastDone, toastError } from "../ui/toast";

/** Who is called what on a cluster with users of its own. For platform administrators. */
export function ClusterUsers({ cluster }: { cluster: Cluster }) {
  const users = useQuery(clusterUsersQuery(cluster.id));
  return (
    <>
      <p className="dim">
        Jobs run there as UNIX users. Jobs of users outside this list run on other clusters, or wait.
      </p>
      <MapUser cluster={cluster} />
      <QueryView query={users} loading={<Lines count={4} label="Loading users" />}>
        {(items) =>
          items.length === 0 ? (
            <Empty>No users are mapped yet. Map a user so that their jobs can run here.</Empty>
          ) : (
            <UserTable cluster={cluster} users={items} />
          )
        }
      </QueryView>
    </>
  );
}

function MapUser({ cluster }: { cluster: Cluster }) {
  const queryClient = useQueryClient();
  const form = useForm({ initialValues: { user: "", name: "" } });
  const { user, name } = form.values;
  const map = useMutation({
    mutationFn: () =>
      unwrap(
        client.PUT("/api/v1/clusters/{cluster_id}/users", {
          params: { path: { cluster_id: cluster.id } },
          body: { user: user.trim(), name: name.trim() },
        }),
      ),
    onSuccess: (mapped) => {
      toastDone(`${mapped.user} runs as ${mapped.name} on ${cluster.name}`);
      void queryClient.invalidateQueries({ queryKey: clusterUsersQuery(cluster.id).queryKey });
      form.reset();
    },
  });
  const refusals = map.error instanceof ApiError ? map.error.fieldErrors : {};
  const isElsewhere = map.error && !refusals.user && !refusals.name;
  return (
    <form
      onSubmit={form.onSubmit(() => map.mutate())}
    >
      <div className="filters">
        <TextInput
          label="User"
          placeholder="ana@ai-company"
          required
          {...form.getInputProps("user")}
          error={refusals.user}
        />
        <TextInput
          label="Name on the cluster"
          placeholder="ana"
          required
          maxLength={32}
          {...form.getInputProps("name")}
          error={refusals.name}
        />
        <Button
          className="fit"
          type="submit"
          loading={map.isPending}
          disabled={user.trim() === "" || name.trim() === ""}
        >
          Map
        </Button>
      </div>
      {isElsewhere && (
        <p className="bad-text" role="alert">
          {map.error.message}
        </p>
      )}
    </form>
  );
}

function UserTable({ cluster, users }: { cluster: Cluster; users: readonly ClusterUser[] }) {
  const queryClient = useQueryClient();
  const [asked, setAsked] = useState<ClusterUser | null>(null);
  const unmap = useMutation({
    mutationFn: ({ id }: ClusterUser) =>
      unwrap(
        client.DELETE("/api/v1/clusters/{cluster_id}/users/{mapping_id}", {
          params: { path: { cluster_id: cluster.id, mapping_id: id } },
        }),
      ),
    onSuccess: (_, { user }) => {
      toastDone(`${user} no longer runs on ${cluster.name}`);
      void queryClient.invalidateQueries({ queryKey: clusterUsersQuery(cluster.id).queryKey });
    },
    onError: toastError,
    onSettled: () => setAsked(null),
  });
  return (
    <>
      <DataTable
        label={`Users of ${cluster.name}`}
        rows={users}
        rowKey={(user) => user.id}
        columns={[
          { header: "User", isHeading: true, cell: (user) => user.user },
          { header: "Name on the cluster", cell: (user) => <code>{user.name}</code> },
          {
            header: <span className="visually-hidden">Actions</span>,
            isRight: true,
            cell: (user) => (
              <Button
                variant="default"
                size="xs"
                c="var(--bad)"
                aria-label={`Remove ${user.user}`}
                onClick={() => setAsked(user)}
              >
                Remove
              </Button>
            ),
          },
        ]}
      />
      <Confirm
        title={`Remove ${asked?.user ?? ""}?`}
        isOpen={asked !== null}
        isBusy={unmap.isPending}
        confirmLabel="Remove"
        isDangerous
        onConfirm={() => asked && unmap.mutate(asked)}
        onClose={() => setAsked(null)}
      >
        New jobs of theirs do not start on {cluster.name} any more. What runs there goes on.
      </Confirm>
    </>
  );
}
