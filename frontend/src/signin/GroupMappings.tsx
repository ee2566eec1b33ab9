import { Button, Select, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { ApiError, client, unwrap } from "../api/client";
import { treeQuery } from "../api/queries";
import type { GroupMapping, IdentityProvider, TreeNode } from "../api/types";
import { isWithin } from "../session/access";
import { ROLES, roleWords } from "../tree/use";
import { Card } from "../ui/Card";
import { CliLine } from "../ui/CliLine";
import { Confirm } from "../ui/Confirm";
import { DataTable } from "../ui/DataTable";
import { Empty, Lines, QueryView } from "../ui/states";
import { toastDone, toastError } from "../ui/toast";
import { groupMappingsQuery } from "./queries";

/** The groups of the identity provider that give roles: listed, added, removed. */
export function GroupMappings({ organization, provider }: { organization: TreeNode; provider: IdentityProvider | null }) {
  const queryClient = useQueryClient();
  const mappings = useQuery(groupMappingsQuery(organization.id));
  const [leaving, setLeaving] = useState<GroupMapping | null>(null);
  const remove = useMutation({
    mutationFn: ({ id }: GroupMapping) =>
      unwrap(client.DELETE("/api/v1/group-mappings/{mapping_id}", { params: { path: { mapping_id: id } } })),
    onSuccess: () => {
      toastDone("The mapping is removed");
      setLeaving(null);
      void queryClient.invalidateQueries({ queryKey: ["identity", "mappings"] });
    },
    onError: toastError,
  });
  return (
    <Card style={{ marginTop: 14 }}>
      <h2>Groups that give roles</h2>
      <p className="dim">
        Members of a group that SCIM pushes have its roles at once.{" "}
        {provider === null || provider.groups_claim === ""
          ? "Sign-ins name no groups yet: enter the groups claim above."
          : "For other groups, people get the roles at their next sign-in, and lose them at the first one without the group."}
      </p>
      <QueryView query={mappings} loading={<Lines count={4} label="Loading the groups" />}>
        {(items) =>
          items.length === 0 ? (
            <Empty>No group gives a role yet.</Empty>
          ) : (
            <DataTable
              label="Groups that give roles"
              rows={items}
              rowKey={({ id }) => id}
              columns={[
                { header: "Group", isHeading: true, className: "breaks", cell: ({ group }) => group },
                { header: "Role", cell: ({ role }) => roleWords(role) },
                { header: "Node", className: "breaks", cell: ({ node }) => node },
                {
                  header: <span className="visually-hidden">Actions</span>,
                  isRight: true,
                  cell: (mapping) => (
                    <Button
                      variant="default"
                      size="xs"
                      c="var(--bad)"
                      aria-label={`Remove ${mapping.group}`}
                      onClick={() => setLeaving(mapping)}
                    >
                      Remove…
                    </Button>
                  ),
                },
              ]}
            />
          )
        }
      </QueryView>
      <MappingForm organization={organization} />
      <p className="sub" style={{ marginTop: 14 }}>
        <CliLine command={`tidegate identity show --organization ${organization.slug}`} />
      </p>
      {leaving && (
        <Confirm
          title="Remove the mapping"
          isOpen
          isBusy={remove.isPending}
          confirmLabel="Remove"
          isDangerous
          onConfirm={() => remove.mutate(leaving)}
          onClose={() => setLeaving(null)}
        >
          <p className="breaks">
            People of {leaving.group} lose the role {roleWords(leaving.role)} on {leaving.node} at once. Roles that a person
            granted stay.
          </p>
        </Confirm>
      )}
    </Card>
  );
}

function MappingForm({ organization }: { organization: TreeNode }) {
  const queryClient = useQueryClient();
  const tree = useQuery(treeQuery);
  const nodes = (tree.data ?? []).filter(({ path, archived_at }) => archived_at === null && isWithin(path, organization.path));
  const form = useForm<{ group: string; role: GroupMapping["role"]; node: string | null }>({
    initialValues: { group: "", role: "researcher", node: null },
  });
  const { group, role, node } = form.values;
  const add = useMutation({
    mutationFn: () =>
      unwrap(
        client.POST("/api/v1/organizations/{organization_id}/group-mappings", {
          params: { path: { organization_id: organization.id } },
          body: { group, role, node: node ?? "" },
        }),
      ),
    onSuccess: (made) => {
      toastDone(`${made.group} gives a role now`);
      form.reset();
      void queryClient.invalidateQueries({ queryKey: ["identity", "mappings"] });
    },
  });
  const refusals = add.error instanceof ApiError ? add.error.fieldErrors : {};
  return (
    <form className="stack" style={{ marginTop: 14 }} onSubmit={form.onSubmit(() => add.mutate())}>
      <div className="even top">
        <TextInput
          label="Group"
          description="Exactly as the provider spells it."
          maxLength={200}
          spellCheck={false}
          {...form.getInputProps("group")}
          error={refusals.group}
        />
        <Select
          label="Role"
          description="What its people may do there."
          allowDeselect={false}
          data={ROLES.map((value) => ({ value, label: roleWords(value) }))}
          {...form.getInputProps("role")}
          error={refusals.role}
        />
        <Select
          label="Node"
          description="A team, a department or the organization."
          searchable
          data={nodes.map(({ path }) => path)}
          {...form.getInputProps("node")}
          error={refusals.node}
        />
      </div>
      {add.error && Object.keys(refusals).length === 0 && (
        <p className="bad-text" role="alert">
          {add.error.message}
        </p>
      )}
      <div className="inline end">
        <Button type="submit" variant="default" loading={add.isPending} disabled={group.trim() === "" || node === null}>
          Add the group
        </Button>
      </div>
    </form>
  );
}
