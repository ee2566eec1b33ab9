import { Select } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";

import { treeQuery } from "../api/queries";
import type { TreeNode } from "../api/types";
import { may } from "../session/access";
import { useSession } from "../session/useSession";
import { Card } from "../ui/Card";
import { Page } from "../ui/Page";
import { Empty, Lines, QueryView } from "../ui/states";
import { FactorRequirement } from "./FactorRequirement";
import { GroupMappings } from "./GroupMappings";
import { ProviderForm } from "./ProviderForm";
import { identityProviderQuery } from "./queries";
import { ScimCard } from "./ScimCard";

/** The identity provider of an organization, and the groups that give roles, for its administrators. */
export function SignInPage() {
  const session = useSession();
  const { organization: slug } = useSearch({ from: "/shell/sign-in" });
  const navigate = useNavigate();
  const tree = useQuery(treeQuery);
  return (
    <Page
      title="Sign-in"
      lead="People sign in with the identity provider of their organization, and its groups give them roles."
    >
      <QueryView query={tree} loading={<Lines count={6} label="Loading the organizations" />}>
        {(nodes) => {
          const managed = nodes.filter(({ kind, path }) => kind === "organization" && may(session, "manage_members", path));
          const own = session.user.organization?.slug;
          const chosen =
            managed.find((each) => each.slug === slug) ?? managed.find((each) => each.slug === own) ?? managed[0];
          if (chosen === undefined)
            return (
              <Card>
                <Empty>Sign-in is for administrators of an organization. Ask one of them for the role.</Empty>
              </Card>
            );
          return (
            <>
              {managed.length > 1 && (
                <div className="filters">
                  <Select
                    label="Organization"
                    allowDeselect={false}
                    data={managed.map((each) => ({ value: each.slug, label: each.name }))}
                    value={chosen.slug}
                    onChange={(value) => void navigate({ to: "/sign-in", search: { organization: value ?? undefined } })}
                  />
                </div>
              )}
              <Settings key={chosen.id} organization={chosen} />
              <FactorRequirement key={`factor of ${chosen.id}`} organization={chosen} />
            </>
          );
        }}
      </QueryView>
    </Page>
  );
}

function Settings({ organization }: { organization: TreeNode }) {
  const provider = useQuery(identityProviderQuery(organization.id));
  return (
    <QueryView query={provider} loading={<Lines count={8} label="Loading the identity provider" />}>
      {(found) => (
        <>
          <ProviderForm key={found?.version ?? 0} organization={organization} provider={found} />
          <GroupMappings organization={organization} provider={found} />
          <ScimCard organization={organization} />
        </>
      )}
    </QueryView>
  );
}
