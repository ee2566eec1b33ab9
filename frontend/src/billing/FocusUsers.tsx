import { Switch } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";

import { client, unwrap } from "../api/client";
import { treeQuery } from "../api/queries";
import type { ExportPolicy, TreeNode } from "../api/types";
import { may } from "../session/access";
import { useSession } from "../session/useSession";
import { Lines, QueryView } from "../ui/states";
import { Time } from "../ui/Time";
import { toastDone, toastError } from "../ui/toast";
import { exportPolicyQuery } from "./exportQueries";

/** How new FOCUS files of the node's organization name users, and the switch for finance. */
export function FocusUsers({ node }: { node: string }) {
  const session = useSession();
  const tree = useQuery(treeQuery);
  const organization = tree.data?.find(({ path }) => path === node.split("/")[0]);
  if (organization === undefined || !may(session, "manage_prices", organization.path)) return null;
  return <Policy organization={organization} />;
}

function Policy({ organization }: { organization: TreeNode }) {
  const policy = useQuery(exportPolicyQuery(organization.id));
  return (
    <QueryView query={policy} loading={<Lines count={1} label="Loading the names of users" />}>
      {(found) => <NameSwitch organization={organization} policy={found} />}
    </QueryView>
  );
}

function NameSwitch({ organization, policy }: { organization: TreeNode; policy: ExportPolicy }) {
  const queries = useQueryClient();
  const { queryKey } = exportPolicyQuery(organization.id);
  const change = useMutation({
    mutationFn: (users: ExportPolicy["users"]) =>
      unwrap(
        client.PATCH("/api/v1/organizations/{organization_id}/export-policy", {
          params: { path: { organization_id: organization.id }, header: { "If-Match": `"v${policy.version}"` } },
          body: { users },
        }),
      ),
    onSuccess: (changed) => {
      queries.setQueryData(queryKey, changed);
      toastDone(`New FOCUS files of ${organization.name} have ${changed.users} of users.`);
    },
    onError: (error) => {
      toastError(error);
      return queries.invalidateQueries({ queryKey });
    },
  });
  return (
    <Switch
      className="focus-users"
      label="Login names in FOCUS files"
      description={
        <>
          When on, new files name users by login instead of pseudonym; files made before keep their names.
          {policy.changed_by !== null && policy.changed_at !== null && (
            <>
              {" "}
              Changed by {policy.changed_by} <Time at={policy.changed_at} />.
            </>
          )}
        </>
      }
      checked={policy.users === "names"}
      disabled={change.isPending}
      onChange={(event) => change.mutate(event.currentTarget.checked ? "names" : "pseudonyms")}
    />
  );
}
