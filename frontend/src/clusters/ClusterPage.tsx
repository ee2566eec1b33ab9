import { Button, Tabs } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { lazy, Suspense, useState } from "react";

import { client, unwrap } from "../api/client";
import { clusterKindsQuery, clustersQuery } from "../api/queries";
import type { Cluster } from "../api/types";
import { may } from "../session/access";
import { useSession } from "../session/useSession";
import { FreshnessBadge, freshnessOf } from "../shell/Freshness";
import { Card } from "../ui/Card";
import { CliLine } from "../ui/CliLine";
import { Confirm } from "../ui/Confirm";
import { NoPage, Page, PageLoading } from "../ui/Page";
import { useNowMs } from "../ui/now";
import { Lines, QueryView } from "../ui/states";
import { toastDone, toastError } from "../ui/toast";
import { CLUSTER_TABS } from "./search";
import { ArchiveCluster } from "./ArchiveCluster";
import { ClusterHealth, ClusterPills, toneOf } from "./ClusterHealth";
import { ClusterUsers } from "./ClusterUsers";
import { ConnectionTest } from "./ConnectionTest";
import { Nodes } from "./Nodes";
import { OutsideUse } from "./OutsideUse";
import { PoolTable } from "./PoolTable";
import { QuotaPushes } from "./QuotaPushes";
import "./cluster.css";

const TAB_WORDS: Record<(typeof CLUSTER_TABS)[number], string> = {
  nodes: "Nodes",
  users: "Users",
  quotas: "Quotas on it",
  options: "Options",
  use: "Use",
};

const ClusterForm = lazy(() => import("./ClusterForm").then((module) => ({ default: module.ClusterForm })));

export function ClusterPage() {
  const { name } = useParams({ from: "/shell/clusters/$name" });
  const clusters = useQuery(clustersQuery);
  return (
    <QueryView
      query={clusters}
      loading={<PageLoading title={name} label="Loading the cluster" />}
    >
      {(items) => {
        const cluster = items.find((each) => each.name === name);
        return cluster ? (
          <ClusterView key={cluster.id} cluster={cluster} />
        ) : (
          <NoPage title={name} heading="No such cluster">
            <p>There is no cluster {name}.</p>
            <Link to="/clusters">All clusters</Link>
          </NoPage>
        );
      }}
    </QueryView>
  );
}

function ClusterView({ cluster }: { cluster: Cluster }) {
  const { isFresh } = freshnessOf(cluster, useNowMs());
  const mayManage = may(useSession(), "manage_clusters", "");
  const has = {
    nodes: true,
    users: mayManage && cluster.has_users,
    quotas: mayManage && cluster.keeps_limits,
    options: mayManage,
    use: mayManage,
  };
  const shown = CLUSTER_TABS.filter((tab) => has[tab]);
  const search = useSearch({ from: "/shell/clusters/$name" });
  const tab = shown.find((each) => each === search.tab) ?? "nodes";
  const navigate = useNavigate({ from: "/clusters/$name" });
  return (
    <Page
      title={cluster.name}
      heading={
        <>
          {cluster.name} <ClusterPills cluster={cluster} />
        </>
      }
      up={<Link to="/clusters">Clusters</Link>}
      actions={
        <span className="dim">
          <FreshnessBadge cluster={cluster} showName={false} />
        </span>
      }
    >
      <div className="rows">
        <Card label="Capacity" tone={toneOf(cluster, isFresh)}>
          <ClusterHealth cluster={cluster} />
          <PoolTable cluster={cluster} />
          <OutsideUse cluster={cluster} />
        </Card>
        <Card label="Details">
          <Tabs
            value={tab}
            keepMounted={false}
            onChange={(next) =>
              void navigate({
                search: (before) => ({ ...before, tab: CLUSTER_TABS.find((each) => each === next) }),
                replace: true,
              })
            }
          >
            <Tabs.List mb={12}>
              {shown.map((each) => (
                <Tabs.Tab key={each} value={each}>
                  {TAB_WORDS[each]}
                </Tabs.Tab>
              ))}
            </Tabs.List>
            <Tabs.Panel value="nodes">
              <Nodes cluster={cluster} mayManage={mayManage} />
            </Tabs.Panel>
            {has.users && (
              <Tabs.Panel value="users">
                <ClusterUsers cluster={cluster} />
              </Tabs.Panel>
            )}
            {has.quotas && (
              <Tabs.Panel value="quotas">
                <QuotaPushes cluster={cluster} />
              </Tabs.Panel>
            )}
            {has.options && (
              <Tabs.Panel value="options">
                <Options cluster={cluster} />
              </Tabs.Panel>
            )}
            {mayManage && (
              <Tabs.Panel value="use">
                <div className="rows">
                  <StoredConnection cluster={cluster} />
                  {cluster.archived_at === null && <Use cluster={cluster} />}
                  <ArchiveCluster cluster={cluster} />
                </div>
              </Tabs.Panel>
            )}
          </Tabs>
        </Card>
        <CliLine command={`tidegate nodes --cluster ${cluster.name}`} />
      </div>
    </Page>
  );
}

/** The options, which may be replaced. */
function Options({ cluster }: { cluster: Cluster }) {
  const loading = <Lines count={8} label="Loading the options" />;
  return (
    <QueryView query={useQuery(clusterKindsQuery)} loading={loading}>
      {(kinds) => {
        const kind = kinds.find(({ name }) => name === cluster.kind);
        return (
          kind && (
            <Suspense fallback={loading}>
              {cluster.options === null && (
                <p className="dim">Its options may hold secrets, so they are not shown. Give all of them anew.</p>
              )}
              <ClusterForm kind={kind} cluster={cluster} />
            </Suspense>
          )
        );
      }}
    </QueryView>
  );
}

/** A test of the connection with the stored options. */
function StoredConnection({ cluster }: { cluster: Cluster }) {
  const test = useMutation({
    mutationFn: () =>
      unwrap(client.POST("/api/v1/clusters/{cluster_id}/check", { params: { path: { cluster_id: cluster.id } }, body: {} })),
    onError: toastError,
  });
  return (
    <div className="stack">
      <ConnectionTest test={test} />
      <CliLine command={`tidegate cluster test ${cluster.name}`} />
    </div>
  );
}

/** Whether new jobs may start there. */
function Use({ cluster }: { cluster: Cluster }) {
  const queryClient = useQueryClient();
  const [isAsked, setAsked] = useState(false);
  const change = useMutation({
    mutationFn: () =>
      unwrap(
        client.PATCH("/api/v1/clusters/{cluster_id}", {
          params: { path: { cluster_id: cluster.id } },
          body: { is_enabled: !cluster.is_enabled },
        }),
      ),
    onSuccess: (changed) => {
      toastDone(`${changed.name} is ${changed.is_enabled ? "in use again" : "disabled"}`);
      void queryClient.invalidateQueries({ queryKey: ["clusters"] });
    },
    onError: toastError,
    onSettled: () => setAsked(false),
  });
  return (
    <div>
      <p>
        {cluster.is_enabled
          ? "New jobs may start on this cluster."
          : "This cluster is disabled: nothing new starts on it. What runs there goes on and is counted."}
      </p>
      <Button variant="default" c={cluster.is_enabled ? "var(--bad)" : undefined} onClick={() => setAsked(true)}>
        {cluster.is_enabled ? "Disable it…" : "Enable it…"}
      </Button>
      <Confirm
        title={cluster.is_enabled ? `Disable ${cluster.name}?` : `Enable ${cluster.name}?`}
        isOpen={isAsked}
        isBusy={change.isPending}
        confirmLabel={cluster.is_enabled ? "Disable" : "Enable"}
        isDangerous={cluster.is_enabled}
        onConfirm={() => change.mutate()}
        onClose={() => setAsked(false)}
      >
        {cluster.is_enabled
          ? "Nothing new starts on it, and what it has no longer counts as capacity. Running jobs are not stopped."
          : "Jobs may start on it as soon as it answers."}
      </Confirm>
      <CliLine command={`tidegate cluster ${cluster.is_enabled ? "disable" : "enable"} ${cluster.name}`} />
    </div>
  );
}
