import { SegmentedControl } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";

import { clusterKindsQuery } from "../api/queries";
import { may } from "../session/access";
import { useSession } from "../session/useSession";
import { NoPage, Page } from "../ui/Page";
import { Lines, QueryView } from "../ui/states";
import { ClusterForm } from "./ClusterForm";
import "./cluster.css";

/** A cluster of any kind, by the form that the server's description of its options gives. */
export function AddClusterPage() {
  return may(useSession(), "manage_clusters", "") ? (
    <Page
      title="Add a cluster"
      lead="Tidegate connects to the cluster at once. The cluster's page then shows its pools, or why it does not answer."
      up={<Link to="/clusters">Clusters</Link>}
    >
      <Kinds />
    </Page>
  ) : (
    <NoPage title="Add a cluster" heading="Only for platform administrators">
      <p>Ask a platform administrator to add a cluster.</p>
      <Link to="/clusters">Clusters</Link>
    </NoPage>
  );
}

function Kinds() {
  const { kind: chosen } = useSearch({ from: "/shell/add-cluster" });
  const navigate = useNavigate();
  const kinds = useQuery(clusterKindsQuery);
  return (
    <QueryView query={kinds} loading={<Lines count={8} label="Loading the kinds of cluster" />}>
      {(items) => {
        const kind = items.find(({ name }) => name === chosen) ?? items[0];
        return (
          kind && (
            <div className="rows">
              <div>
                <SegmentedControl
                  aria-label="Kind of cluster"
                  value={kind.name}
                  onChange={(next) => void navigate({ to: "/add-cluster", search: { kind: next }, replace: true })}
                  data={items.map(({ name, title }) => ({ value: name, label: title }))}
                />
              </div>
              <ClusterForm key={kind.name} kind={kind} />
            </div>
          )
        );
      }}
    </QueryView>
  );
}
