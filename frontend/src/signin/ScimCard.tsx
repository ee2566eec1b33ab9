import { Button, Modal, Select, Switch, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { LIFETIMES } from "../access/lifetimes";
import { Secret } from "../access/tokens";
import { ApiError, client, unwrap } from "../api/client";
import type { NewScimToken, Scim, TreeNode } from "../api/types";
import { Card } from "../ui/Card";
import { CliLine } from "../ui/CliLine";
import { Fact, Facts } from "../ui/Facts";
import { Lines, QueryView } from "../ui/states";
import { Time } from "../ui/Time";
import { toastDone } from "../ui/toast";
import { scimQuery } from "./queries";
import { ScimTokens } from "./ScimTokens";

const CLAIMS = [
  { value: "sub", label: "sub: Okta and most others" },
  { value: "oid", label: "oid: Entra ID" },
  { value: "uid", label: "uid: Okta with an authorization server of your own" },
];

/** SCIM of an organization: what was pushed, its settings and its tokens. */
export function ScimCard({ organization }: { organization: TreeNode }) {
  const scim = useQuery(scimQuery(organization.id));
  const [isCreating, setCreating] = useState(false);
  const [created, setCreated] = useState<NewScimToken | null>(null);
  const take = (token: NewScimToken) => {
    setCreated(token);
    setCreating(false);
  };
  return (
    <Card style={{ marginTop: 14 }}>
      <div className="spread">
        <h2>People and groups by SCIM</h2>
        <Button variant="default" onClick={() => setCreating(true)}>
          New token
        </Button>
      </div>
      <p className="dim">The identity provider pushes its people and groups here, and deactivates those who leave.</p>
      {created && (
        <Secret title={`Token “${created.name}” for SCIM`} secret={created.secret} onDone={() => setCreated(null)} />
      )}
      <QueryView query={scim} loading={<Lines count={6} label="Loading SCIM" />}>
        {(found) => (
          <>
            <Facts label="SCIM" isLeft>
              <Fact name="Address">
                <code className="breaks">{found.base_url}</code>
              </Fact>
              <Fact name="Last contact">{found.last_contact_at ? <Time at={found.last_contact_at} /> : "never"}</Fact>
              <Fact name="People">
                {found.active_people.toLocaleString("en")} active, {found.deactivated_people.toLocaleString("en")} deactivated
              </Fact>
              <Fact name="Groups">{found.groups.toLocaleString("en")}</Fact>
            </Facts>
            <SettingsForm key={found.version} organization={organization} scim={found} />
          </>
        )}
      </QueryView>
      <ScimTokens organization={organization} onReplaced={take} />
      <p className="sub" style={{ marginTop: 14 }}>
        <CliLine command={`tidegate scim show --organization ${organization.slug}`} />
      </p>
      <Modal
        opened={isCreating}
        onClose={() => setCreating(false)}
        title="New token for SCIM"
        closeButtonProps={{ "aria-label": "Close" }}
      >
        <TokenForm organization={organization} onCreated={take} />
      </Modal>
    </Card>
  );
}

function SettingsForm({ organization, scim }: { organization: TreeNode; scim: Scim }) {
  const queryClient = useQueryClient();
  const form = useForm({
    initialValues: { external_id_claim: scim.external_id_claim, adopts_accounts: scim.adopts_accounts },
  });
  const save = useMutation({
    mutationFn: () =>
      unwrap(
        client.PUT("/api/v1/organizations/{organization_id}/scim", {
          params: { path: { organization_id: organization.id }, header: { "If-Match": `"v${scim.version}"` } },
          body: form.values,
        }),
      ),
    onSuccess: () => {
      toastDone("The settings of SCIM are saved");
      void queryClient.invalidateQueries({ queryKey: scimQuery(organization.id).queryKey });
    },
  });
  return (
    <form className="stack" style={{ marginTop: 14 }} onSubmit={form.onSubmit(() => save.mutate())}>
      <div className="even top">
        <Select
          label="Claim of the external ID"
          description="The claim of a sign-in that equals the person's externalId."
          allowDeselect={false}
          data={CLAIMS}
          {...form.getInputProps("external_id_claim")}
        />
        <Switch
          label="Take over accounts"
          description="A pushed person gets the account with the same username. Only where both name the same people."
          {...form.getInputProps("adopts_accounts", { type: "checkbox" })}
        />
      </div>
      {save.error && (
        <p className="bad-text" role="alert">
          {save.error.message}
        </p>
      )}
      <div className="inline end">
        <Button type="submit" variant="default" loading={save.isPending} disabled={!form.isDirty()}>
          Save the settings
        </Button>
      </div>
    </form>
  );
}

function TokenForm({ organization, onCreated }: { organization: TreeNode; onCreated: (token: NewScimToken) => void }) {
  const queryClient = useQueryClient();
  const form = useForm({ initialValues: { name: "", days: "365" } });
  const create = useMutation({
    mutationFn: () =>
      unwrap(
        client.POST("/api/v1/organizations/{organization_id}/scim/tokens", {
          params: { path: { organization_id: organization.id } },
          body: { name: form.values.name, expires_in_days: Number(form.values.days) },
        }),
      ),
    onSuccess: (token) => {
      void queryClient.invalidateQueries({ queryKey: ["identity", "scim-tokens"] });
      onCreated(token);
    },
  });
  const refusals = create.error instanceof ApiError ? create.error.fieldErrors : {};
  return (
    <form className="stack" onSubmit={form.onSubmit(() => create.mutate())}>
      <TextInput
        label="Name"
        description="Such as the name of the identity provider."
        maxLength={60}
        required
        data-autofocus
        {...form.getInputProps("name")}
        error={refusals.name}
      />
      <Select
        label="Expires in"
        description="Replace it before: afterwards the identity provider pushes nothing."
        allowDeselect={false}
        data={LIFETIMES}
        {...form.getInputProps("days")}
        error={refusals.expires_in_days}
      />
      {create.error && (
        <p className="bad-text" role="alert">
          {create.error.message}
        </p>
      )}
      <div className="inline end">
        <Button type="submit" loading={create.isPending} disabled={form.values.name.trim() === ""}>
          Create
        </Button>
      </div>
    </form>
  );
}
