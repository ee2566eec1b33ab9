import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";

import { clustersQuery } from "../api/queries";
import type { Cluster } from "../api/types";
import { may } from "../session/access";
import { useSession } from "../session/useSession";
import { FreshnessBadge, freshnessOf } from "../shell/Freshness";
import { Card } from "../ui/Card";
import { CliLine } from "../ui/CliLine";
import { Page } from "../ui/Page";
import { useNowMs } from "../ui/now";
import { Empty, Lines, QueryView } from "../ui/states";
import { ClusterHealth, ClusterPills, toneOf } from "./ClusterHealth";
import { Pools } from "./Pools";
import { PoolTable } from "./PoolTable";

export function ClustersPage() {
  const clusters = useQuery(clustersQuery);
  const mayAdd = may(useSession(), "manage_clusters", "");
  const add = mayAdd && (
    <Link to="/add-cluster" className="button-like">
      Add a cluster
    </Link>
  );
  return (
    <Page title="Clusters" lead="The last report of each cluster, and its age." actions={add}>
      <QueryView
        query={clusters}
        loading={
          <Card>
            <Lines count={5} label="Loading clusters" />
          </Card>
        }
      >
        {(items) => (
          <div className="rows">
            {items.length === 0 ? (
              <Card>
                <Empty action={add} cli="tidegate clusters">
                  No cluster is registered yet. A platform administrator adds the first one.
                </Empty>
              </Card>
            ) : (
              <>
                <div className="even">
                  {items.map((cluster) => (
                    <ClusterCard key={cluster.id} cluster={cluster} />
                  ))}
                </div>
                <CliLine command="tidegate clusters" />
              </>
            )}
            {mayAdd && <Pools clusters={items} />}
          </div>
        )}
      </QueryView>
    </Page>
  );
}

function ClusterCard({ cluster }: { cluster: Cluster }) {
  const { isFresh } = freshnessOf(cluster, useNowMs());
  return (
    <Card label={`Cluster ${cluster.name}`} tone={toneOf(cluster, isFresh)}>
      <div className="spread">
        <h2>
          <Link to="/clusters/$name" params={{ name: cluster.name }}>
            {cluster.name}
          </Link>{" "}
          <ClusterPills cluster={cluster} />
        </h2>
        <span className="dim">
          <FreshnessBadge cluster={cluster} showName={false} />
        </span>
      </div>
      <ClusterHealth cluster={cluster} />
      <PoolTable cluster={cluster} />
    </Card>
  );
}
