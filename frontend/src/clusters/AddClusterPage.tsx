import { SegmentedControl } from "@mantine/core";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";

import { may } from "../session/access";
import { useSession } from "../session/useSession";
import { usePageTitle } from "../ui/usePageTitle";
import { ADDED_KINDS } from "./search";
import { KubernetesForm } from "./KubernetesForm";
import { SlurmForm } from "./SlurmForm";
import "./cluster.css";

/** A Slurm or Kubernetes cluster by form. Other kinds are added over the API. */
export function AddClusterPage() {
  usePageTitle("Add a cluster");
  const { kind = "slurm" } = useSearch({ from: "/shell/add-cluster" });
  const navigate = useNavigate();
  return may(useSession(), "manage_clusters", "") ? (
    <>
      <p className="small">
        <Link to="/clusters">Clusters</Link>
      </p>
      <h1>Add a cluster</h1>
      <p className="sub">It is asked as soon as it is added; its page then says what it has, or why it does not answer.</p>
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
    </>
  ) : (
    <div className="card empty">
      <h1>Not for you</h1>
      <p>Clusters are added by platform administrators.</p>
      <Link to="/clusters">Clusters</Link>
    </div>
  );
}
