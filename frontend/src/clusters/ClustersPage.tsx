import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";

import { clustersQuery } from "../api/queries";
import type { Cluster } from "../api/types";
import { may } from "../session/access";
import { useSession } from "../session/useSession";
import { FreshnessBadge, freshnessOf } from "../shell/Freshness";
import { CliLine } from "../ui/CliLine";
import { useNowMs } from "../ui/now";
import { Empty, Lines, QueryView } from "../ui/states";
import { usePageTitle } from "../ui/usePageTitle";
import { ArchivePools } from "./ArchivePools";
import { ClusterHealth, ClusterPills, markOf } from "./ClusterHealth";
import { PoolTable } from "./PoolTable";

export function ClustersPage() {
  usePageTitle("Clusters");
  const clusters = useQuery(clustersQuery);
  const mayAdd = may(useSession(), "manage_clusters", "");
  const add = mayAdd && (
    <Link to="/add-cluster" className="button-like">
      Add a cluster
    </Link>
  );
  return (
    <>
      <div className="spread">
        <div>
          <h1>Clusters</h1>
          <p className="sub">What each cluster last said about itself, and when.</p>
        </div>
        {add}
      </div>
      <QueryView
        query={clusters}
        loading={
          <div className="card">
            <Lines count={5} label="Loading clusters" />
          </div>
        }
      >
        {(items) => (
          <div className="rows">
            {items.length === 0 ? (
              <div className="card">
                <Empty action={add} cli="tidegate clusters">
                  No cluster is registered yet. A platform administrator adds the first one.
                </Empty>
              </div>
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
            {mayAdd && <ArchivePools />}
          </div>
        )}
      </QueryView>
    </>
  );
}

function ClusterCard({ cluster }: { cluster: Cluster }) {
  const { isFresh } = freshnessOf(cluster, useNowMs());
  return (
    <section className={`card ${markOf(cluster, isFresh)}`} aria-label={`Cluster ${cluster.name}`}>
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
    </section>
  );
}
