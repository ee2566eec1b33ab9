import { SegmentedControl } from "@mantine/core";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";

import { may } from "../session/access";
import { useSession } from "../session/useSession";
import { NoPage, Page } from "../ui/Page";
import { ADDED_KINDS } from "./search";
import { KubernetesForm } from "./KubernetesForm";
import { SlurmForm } from "./SlurmForm";
import "./cluster.css";

/** A Slurm or Kubernetes cluster by form. Other kinds are added over the API. */
export function AddClusterPage() {
  const { kind = "slurm" } = useSearch({ from: "/shell/add-cluster" });
  const navigate = useNavigate();
  return may(useSession(), "manage_clusters", "") ? (
    <Page
      title="Add a cluster"
      lead="Tidegate connects to the cluster at once. The cluster's page then shows its pools, or why it does not answer."
      up={<Link to="/clusters">Clusters</Link>}
    >
      <div className="rows">
        <div>
          <SegmentedControl
            aria-label="Kind of cluster"
            value={kind}
            onChange={(next) =>
              void navigate({
                to: "/add-cluster",
                search: { kind: ADDED_KINDS.find((each) => each === next) },
                replace: true,
              })
            }
            data={[
              { value: "slurm", label: "Slurm" },
              { value: "kubernetes", label: "Kubernetes" },
            ]}
          />
        </div>
        {kind === "slurm" ? <SlurmForm /> : <KubernetesForm />}
      </div>
    </Page>
  ) : (
    <NoPage title="Add a cluster" heading="Only for platform administrators">
      <p>Ask a platform administrator to add a cluster.</p>
      <Link to="/clusters">Clusters</Link>
    </NoPage>
  );
}
