import { SegmentedControl } from "@mantine/core";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";

import { client, unwrap } from "../api/client";
import { treeQuery } from "../api/queries";
import type { TreeNode } from "../api/types";
import { may } from "../session/access";
import { useSession } from "../session/useSession";
import { Card } from "../ui/Card";
import { CliLine } from "../ui/CliLine";
import { Fact, Facts } from "../ui/Facts";
import { Page } from "../ui/Page";
import { Empty, Lines, QueryView } from "../ui/states";
import { INSTALLATION_FIELDS, POLICY_FIELDS, SECOND_PERSON_FIELDS, showValue, type Field } from "./fields";
import { PriorityClasses } from "./PriorityClasses";
import { installationPolicyQuery, policyQuery, secondPersonQuery } from "./queries";
import { RulesForm, type Rules } from "./RulesForm";
import { TimeLimits } from "./TimeLimits";
import "./policy.css";

/** Rules of service: of an organization, of its priority classes, and of the installation. */
export function PolicyPage() {
  const { scope, organization: chosen } = useSearch({ from: "/shell/policy" });
  const navigate = useNavigate({ from: "/policy" });
  const tree = useQuery(treeQuery);
  return (
    <Page title="Policy" lead="The order of jobs, the length of a reclaim notice, and the order of preemption.">
      <QueryView query={tree} loading={<Loading />}>
        {(nodes) => {
          const organizations = nodes.filter((node) => node.kind === "organization");
          const slug = chosen ?? scope?.split("/")[0];
          const organization = organizations.find((node) => node.slug === slug) ?? organizations[0];
          return (
            <div className="rows">
              {organizations.length > 1 && organization && (
                <SegmentedControl
                  className="organizations"
                  aria-label="Organization"
                  data={organizations.map((node) => ({ value: node.slug, label: node.name }))}
                  value={organization.slug}
                  onChange={(next) =>
                    void navigate({ search: (before) => ({ ...before, organization: next, name: undefined }) })
                  }
                />
              )}
              {organization ? (
                <OfOrganization key={organization.id} organization={organization} nodes={nodes} />
              ) : (
                <Card>
                  <Empty>No organization is visible to you.</Empty>
                </Card>
              )}
              <OfInstallation />
            </div>
          );
        }}
      </QueryView>
    </Page>
  );
}

function Loading() {
  return (
    <Card>
      <Lines count={7} label="Loading the policy" />
    </Card>
  );
}

function OfOrganization({ organization, nodes }: { organization: TreeNode; nodes: readonly TreeNode[] }) {
  const session = useSession();
  const queryClient = useQueryClient();
  const policy = useQuery(policyQuery(organization.id));
  const mayChange = may(session, "manage_quota", organization.path);
  const inside = nodes.filter((node) => node.path.startsWith(`${organization.path}/`)).map((node) => node.path);
  return (
    <>
      <Card label={`Policy of ${organization.name}`}>
        <h2>Order of service in {organization.name}</h2>
        <QueryView query={policy} loading={<Lines count={6} label="Loading the policy" />}>
          {(found) =>
            mayChange ? (
              <RulesForm
                rules={found as Rules}
                fields={POLICY_FIELDS}
                paths={inside}
                onSave={(patch, version) =>
                  unwrap(
                    client.PATCH("/api/v1/organizations/{organization_id}/policy", {
                      params: { path: { organization_id: organization.id }, header: { "If-Match": `"v${version}"` } },
                      body: patch,
                    }),
                  )
                }
                onSaved={() => void queryClient.invalidateQueries({ queryKey: policyQuery(organization.id).queryKey })}
              />
            ) : (
              <>
                <RuleFacts rules={found as Rules} fields={POLICY_FIELDS} />
                <p className="small dim">An administrator of {organization.name} can change this.</p>
              </>
            )
          }
        </QueryView>
        <p>
          <CliLine command={`tidegate policy get ${organization.slug}`} />
        </p>
      </Card>
      <PriorityClasses organization={organization} />
      <TimeLimits organization={organization} nodes={nodes} />
      <SecondPerson organization={organization} />
    </>
  );
}

function SecondPerson({ organization }: { organization: TreeNode }) {
  const queryClient = useQueryClient();
  const query = secondPersonQuery(organization.id);
  const policy = useQuery(query);
  return (
    <Card label="Second person">
      <h2>Changes that need a second person</h2>
      <p className="small dim">
        Another person with the same right approves such a change on the page Requests. While a rule is on, its own
        change needs a second person, too.
      </p>
      <QueryView query={policy} loading={<Lines count={4} label="Loading the rules about a second person" />}>
        {(found) =>
          found.can_edit ? (
            <RulesForm
              rules={found}
              fields={SECOND_PERSON_FIELDS}
              onSave={(patch, version) =>
                unwrap(
                  client.PATCH("/api/v1/organizations/{organization_id}/second-person", {
                    params: { path: { organization_id: organization.id }, header: { "If-Match": `"v${version}"` } },
                    body: patch,
                  }),
                )
              }
              onSaved={() => void queryClient.invalidateQueries({ queryKey: query.queryKey })}
            />
          ) : (
            <RuleFacts rules={found} fields={SECOND_PERSON_FIELDS} />
          )
        }
      </QueryView>
      <p>
        <CliLine command={`tidegate policy second-person ${organization.slug}`} />
      </p>
    </Card>
  );
}

/** What holds for all is read by all, and changed by platform administrators. */
function OfInstallation() {
  const mayChange = may(useSession(), "manage_clusters", "");
  const queryClient = useQueryClient();
  const policy = useQuery(installationPolicyQuery);
  return (
    <Card label="Policy of the installation">
      <h2>For all organizations alike</h2>
      <QueryView query={policy} loading={<Lines count={6} label="Loading the policy of the installation" />}>
        {(found) => mayChange ? (
          <RulesForm
            rules={found as Rules}
            fields={INSTALLATION_FIELDS}
            onSave={(patch, version) =>
              unwrap(
                client.PATCH("/api/v1/policy", {
                  params: { header: { "If-Match": `"v${version}"` } },
                  body: patch,
                }),
              )
            }
            onSaved={() => void queryClient.invalidateQueries({ queryKey: installationPolicyQuery.queryKey })}
          />
        ) : (
          <RuleFacts rules={found as Rules} fields={INSTALLATION_FIELDS} />
        )}
      </QueryView>
      <p>
        <CliLine command="tidegate policy get" />
      </p>
    </Card>
  );
}

/** The same for who may only look. */
function RuleFacts({ rules, fields }: { rules: Rules; fields: readonly Field[] }) {
  return (
    <Facts isLeft className="policy">
        {fields.map((field) => (
          <Fact key={field.name} name={field.label}>
            {showValue(field, rules[field.name] ?? null)}
            <div className="small faint">{field.meaning}</div>
          </Fact>
        ))}
      </Facts>
  );
}
