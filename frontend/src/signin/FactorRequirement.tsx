import { Switch } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { client, unwrap } from "../api/client";
import type { TreeNode } from "../api/types";
import { Card } from "../ui/Card";
import { CliLine } from "../ui/CliLine";
import { Confirm } from "../ui/Confirm";
import { Lines, QueryView } from "../ui/states";
import { toastDone, toastError } from "../ui/toast";
import { signInPolicyQuery } from "./queries";

/** Whether people who sign in with a password need a second factor. */
export function FactorRequirement({ organization }: { organization: TreeNode }) {
  const queryClient = useQueryClient();
  const policy = useQuery(signInPolicyQuery(organization.id));
  const [isAsking, setAsking] = useState(false);
  const path = { organization_id: organization.id };
  const save = useMutation({
    mutationFn: ({ requires_second_factor, version }: { requires_second_factor: boolean; version: number }) =>
      unwrap(
        client.PUT("/api/v1/organizations/{organization_id}/sign-in-policy", {
          params: { path, header: { "If-Match": `"v${version}"` } },
          body: { requires_second_factor },
        }),
      ),
    onSuccess: (saved) =>
      toastDone(saved.requires_second_factor ? "A second factor is required" : "A second factor is not required"),
    onError: toastError,
    onSettled: () => {
      setAsking(false);
      for (const key of ["identity", "session"]) void queryClient.invalidateQueries({ queryKey: [key] });
    },
  });
  return (
    <Card style={{ marginTop: 14 }}>
      <h2>Second factor</h2>
      <QueryView query={policy} loading={<Lines count={2} label="Loading the policy" />}>
        {({ requires_second_factor, version }) => (
          <>
            <Switch
              label="Require a second factor"
              description="Of people who sign in with a password. People of an identity provider, service accounts and access tokens are not affected."
              checked={requires_second_factor}
              disabled={save.isPending}
              onChange={(event) =>
                event.currentTarget.checked
                  ? setAsking(true)
                  : save.mutate({ requires_second_factor: false, version })
              }
            />
            <Confirm
              isOpen={isAsking}
              title="Require a second factor?"
              isBusy={save.isPending}
              confirmLabel="Require it"
              onConfirm={() => save.mutate({ requires_second_factor: true, version })}
              onClose={() => setAsking(false)}
            >
              People without one can only add one from now on, in open sessions, too. That includes you.
            </Confirm>
          </>
        )}
      </QueryView>
      <p className="sub" style={{ marginTop: 14 }}>
        <CliLine command={`tidegate second-factor require --organization ${organization.slug}`} />
      </p>
    </Card>
  );
}
