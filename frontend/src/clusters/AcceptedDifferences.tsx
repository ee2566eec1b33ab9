import { Button } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";

import { client, unwrap } from "../api/client";
import { acceptedDifferencesQuery } from "../api/queries";
import type { Cluster } from "../api/types";
import { CliLine } from "../ui/CliLine";
import { DataTable } from "../ui/DataTable";
import { Time } from "../ui/Time";
import { toastDone, toastError } from "../ui/toast";
import { Settings, Subject } from "./differences";

/** What somebody lets stand: no comparison shows it and no push changes it until it is taken back here. */
export function AcceptedDifferences({ cluster }: { cluster: Cluster }) {
  const { data: differences = [] } = useQuery(acceptedDifferencesQuery(cluster.id));
  const queryClient = useQueryClient();
  const withdraw = useMutation({
    mutationFn: (id: number) =>
      unwrap(
        client.DELETE("/api/v1/clusters/{cluster_id}/accepted-differences/{difference_id}", {
          params: { path: { cluster_id: cluster.id, difference_id: id } },
        }),
      ),
    onSuccess: () => {
      toastDone("The next comparison shows it again");
      void queryClient.invalidateQueries({ queryKey: acceptedDifferencesQuery(cluster.id).queryKey });
    },
    onError: toastError,
  });
  if (differences.length === 0) return null;
  return (
    <section aria-label="Accepted differences">
      <h2>Accepted differences</h2>
      <p className="dim">Pushes skip a difference here until one of its sides changes.</p>
      <div className="scroll-x">
        <DataTable
          label="Accepted differences"
          className="changes"
          rows={differences}
          rowKey={(difference) => difference.id}
          columns={[
            {
              header: "What",
              isHeading: true,
              cell: (difference) => (
                <>
                  <Subject subject={difference.subject} names={cluster.words.subjects} />
                  <div>
                    <Button
                      variant="default"
                      size="xs"
                      disabled={withdraw.isPending}
                      aria-label={`Show ${difference.subject} again`}
                      onClick={() => withdraw.mutate(difference.id)}
                    >
                      Show again
                    </Button>
                  </div>
                </>
              ),
            },
            { header: "It has", cell: (difference) => <Settings change={difference} side="before" /> },
            {
              header: "It should have",
              cell: (difference) => <Settings change={difference} side="after" />,
            },
            {
              header: "By",
              only: "wide",
              cell: (difference) => (
                <>
                  {difference.accepted_by} <Time at={difference.accepted_at} />
                </>
              ),
            },
          ]}
        />
      </div>
      <p className="small">
        <CliLine command={`tidegate cluster accepted ${cluster.name}`} />
      </p>
    </section>
  );
}
