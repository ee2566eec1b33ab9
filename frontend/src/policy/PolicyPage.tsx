import { Drawer, SegmentedControl } from "@mantine/core";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";

import { client, unwrap } from "../api/client";
import { priorityClassesQuery, treeQuery } from "../api/queries";
import type { PriorityClass, TreeNode } from "../api/types";
import { may } from "../session/access";
import { useSession } from "../session/useSession";
import { CliLine } from "../ui/CliLine";
import { Empty, Lines, QueryView } from "../ui/states";
import { formatCount, formatDuration, formatGpus, formatMultiplier } from "../ui/units";
import { usePageTitle } from "../ui/usePageTitle";
import { CLASS_FIELDS, INSTALLATION_FIELDS, POLICY_FIELDS, showValue, type Field } from "./fields";
import { installationPolicyQuery, policyQuery } from "./queries";
import { RulesForm, type Rules } from "./RulesForm";
import "./policy.css";

/** Rules of service: of an organization, of its priority classes, and of the installation. */
export function PolicyPage() {
  usePageTitle("Policy");
  const { scope, organization: chosen } = useSearch({ from: "/shell/policy" });
  const navigate = useNavigate({ from: "/policy" });
  const tree = useQuery(treeQuery);
  return (
    <>
      <h1>Policy</h1>
      <p className="sub">Who is served first, how long a notice is, and who is stopped last.</p>
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
                <div className="card">
                  <Empty>There is no organization that you can see.</Empty>
                </div>
              )}
              <OfInstallation />
            </div>
          );
        }}
      </QueryView>
    </>
  );
}

function Loading() {
  return (
    <div className="card">
      <Lines count={7} label="Loading the policy" />
    </div>
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
      <section className="card" aria-label={`Policy of ${organization.name}`}>
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
                <Facts rules={found as Rules} fields={POLICY_FIELDS} />
                <p className="small dim">An administrator of {organization.name} can change this.</p>
              </>
            )
          }
        </QueryView>
        <p>
          <CliLine command={`tidegate policy get ${organization.slug}`} />
        </p>
      </section>
      <Classes organization={organization} mayChange={mayChange} />
    </>
  );
}

/** What holds for all is read by all, and changed by platform administrators. */
function OfInstallation() {
  const mayChange = may(useSession(), "manage_clusters", "");
  const queryClient = useQueryClient();
  const policy = useQuery(installationPolicyQuery);
  return (
    <section className="card" aria-label="Policy of the installation">
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
          <Facts rules={found as Rules} fields={INSTALLATION_FIELDS} />
        )}
      </QueryView>
      <p>
        <CliLine command="tidegate policy get" />
      </p>
    </section>
  );
}

/** The same for who may only look. */
function Facts({ rules, fields }: { rules: Rules; fields: readonly Field[] }) {
  return (
    <table className="facts left policy">
      <tbody>
        {fields.map((field) => (
          <tr key={field.name}>
            <th scope="row">{field.label}</th>
            <td>
              {showValue(field, rules[field.name] ?? null)}
              <div className="small faint">{field.meaning}</div>
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Classes({ organization, mayChange }: { organization: TreeNode; mayChange: boolean }) {
  const { name } = useSearch({ from: "/shell/policy" });
  const navigate = useNavigate({ from: "/policy" });
  const queryClient = useQueryClient();
  const query = priorityClassesQuery(organization.slug);
  const classes = useQuery(query);
  const choose = (next: string | undefined) =>
    void navigate({ search: (before) => ({ ...before, name: next }), replace: true });
  return (
    <section className="card" aria-label="Priority classes">
      <h2>Priority classes</h2>
      <QueryView query={classes} loading={<Lines count={4} label="Loading priority classes" />}>
        {(found) => {
          if (found.length === 0) return <Empty>No class yet: the first quota of an organization brings them.</Empty>;
          const open = found.find((each) => each.name === name);
          return (
            <>
              <ClassTable
                classes={[...found].sort((a, b) => b.order - a.order)}
                onChoose={mayChange ? choose : undefined}
              />
              {open && mayChange && (
                <Drawer
                  opened
                  onClose={() => choose(undefined)}
                  position="right"
                  size="lg"
                  title={<b>Priority class {open.name}</b>}
                  closeButtonProps={{ "aria-label": "Close" }}
                >
                  <RulesForm
                    rules={open}
                    fields={CLASS_FIELDS}
                    onSave={(patch, version) =>
                      unwrap(
                        client.PATCH("/api/v1/priority-classes/{class_id}", {
                          params: { path: { class_id: open.id }, header: { "If-Match": `"v${version}"` } },
                          body: patch,
                        }),
                      )
                    }
                    onSaved={() => {
                      void queryClient.invalidateQueries({ queryKey: query.queryKey });
                      choose(undefined);
                    }}
                  />
                </Drawer>
              )}
            </>
          );
        }}
      </QueryView>
    </section>
  );
}

function ClassTable({
  classes,
  onChoose,
}: {
  classes: readonly PriorityClass[];
  onChoose: ((name: string) => void) | undefined;
}) {
  return (
    <table>
      <thead>
        <tr>
          <th scope="col">Class</th>
          <th scope="col" className="n">
            Order
          </th>
          <th scope="col">May stop</th>
          <th scope="col" className="n hide">
            Grace
          </th>
          <th scope="col" className="n hide">
            Cap in a team
          </th>
          <th scope="col" className="n hide">
            Price
          </th>
          {onChoose && (
            <th scope="col">
              <span className="visually-hidden">Change</span>
            </th>
          )}
        </tr>
      </thead>
      <tbody>
        {classes.map((each) => (
          <tr key={each.id}>
            <th scope="row">
              {each.name}
              <div className="small faint">{each.description}</div>
            </th>
            <td className="n">{formatCount(each.order)}</td>
            <td>
              {each.preempts_across_teams
                ? "lower ones of all teams"
                : each.preempts_within_team
                  ? "lower ones of its team"
                  : "nobody"}
            </td>
            <td className="n hide">{formatDuration(each.grace_period_s)}</td>
            <td className="n hide">
              {each.team_cap_mgpu === null ? <span className="faint">none</span> : formatGpus(each.team_cap_mgpu)}
            </td>
            <td className="n hide">{formatMultiplier(each.price_multiplier_ppm)}</td>
            {onChoose && (
              <td className="n">
                <button
                  type="button"
                  className="plain link small"
                  aria-label={`Change ${each.name}`}
                  onClick={() => onChoose(each.name)}
                >
                  change
                </button>
              </td>
            )}
          </tr>
        ))}
      </tbody>
    </table>
  );
}
