import { Button, PasswordInput, Switch, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useMutation, useQueryClient } from "@tanstack/react-query";

import { ApiError, client, unwrap } from "../api/client";
import type { IdentityProvider, IdentityProviderChange, TreeNode } from "../api/types";
import { Card } from "../ui/Card";
import { CliLine } from "../ui/CliLine";
import { toastDone } from "../ui/toast";

const AT_FIRST = {
  name: "Company login",
  issuer: "",
  client_id: "",
  client_secret: "",
  scopes: "openid profile email",
  groups_claim: "groups",
  creates_people: false,
  links_by_email: false,
  is_enabled: true,
  is_listed: false,
  allows_passwords: true,
};

const SWITCHES = [
  ["is_enabled", "Enabled", "People can sign in with this provider."],
  ["creates_people", "Create accounts", "A person without an account gets one at the first sign-in."],
  ["links_by_email", "Link by email", "The first sign-in links the account with the same verified email address."],
  ["is_listed", "List for everybody", "The sign-in page shows the button before anybody names the organization."],
  ["allows_passwords", "Passwords", "People of the organization may also sign in with a password."],
] as const;

/** Sets the provider up, changes it, and tests it. */
export function ProviderForm({ organization, provider }: { organization: TreeNode; provider: IdentityProvider | null }) {
  const queryClient = useQueryClient();
  const form = useForm({
    initialValues:
      provider === null ? AT_FIRST : { ...AT_FIRST, ...provider, client_secret: "", scopes: provider.scopes.join(" ") },
  });
  const path = { organization_id: organization.id };
  const save = useMutation({
    mutationFn: (body: IdentityProviderChange) =>
      unwrap(
        client.PUT("/api/v1/organizations/{organization_id}/identity-provider", {
          params: { path, header: provider === null ? {} : { "If-Match": `"v${provider.version}"` } },
          body,
        }),
      ),
    onSuccess: (saved) => {
      toastDone(`${saved.name} is set`);
      test.reset();
      void queryClient.invalidateQueries({ queryKey: ["identity"] });
    },
  });
  const test = useMutation({
    mutationFn: () =>
      unwrap(client.POST("/api/v1/organizations/{organization_id}/identity-provider/test", { params: { path } })),
  });
  const refusals = save.error instanceof ApiError ? save.error.fieldErrors : {};
  const input = (field: "name" | "issuer" | "client_id" | "client_secret" | "scopes" | "groups_claim") => ({
    ...form.getInputProps(field),
    error: refusals[field],
    spellCheck: false,
  });
  const typed = form.values;
  const callback =
    provider?.callback_url ?? `${globalThis.location.origin}/api/v1/session/callback/${organization.slug}`;
  const isReady =
    typed.name.trim() !== "" &&
    typed.issuer !== "" &&
    typed.client_id !== "" &&
    (provider !== null || typed.client_secret !== "");
  return (
    <Card>
      <h2>Identity provider</h2>
      <p className="dim">
        Register a confidential web client for OpenID Connect there, with this redirect URI:{" "}
        <code className="breaks">{callback}</code>
      </p>
      <form
        className="stack"
        onSubmit={form.onSubmit((values) =>
          save.mutate({
            name: values.name,
            issuer: values.issuer.trim(),
            client_id: values.client_id.trim(),
            client_secret: values.client_secret === "" ? null : values.client_secret,
            scopes: values.scopes.split(/\s+/).filter(Boolean),
            groups_claim: values.groups_claim.trim(),
            creates_people: values.creates_people,
            links_by_email: values.links_by_email,
            is_enabled: values.is_enabled,
            is_listed: values.is_listed,
            allows_passwords: values.allows_passwords,
          }),
        )}
      >
        <div className="even top">
          <TextInput label="Name" description="The button of the sign-in page shows it." required {...input("name")} />
          <TextInput
            label="Issuer"
            description="Exactly as the provider has it, such as https://login.example.org/realms/main."
            required
            {...input("issuer")}
          />
          <TextInput label="Client ID" description="The provider gives it." required {...input("client_id")} />
          <PasswordInput
            label="Client secret"
            description={provider === null ? "It is never shown again." : "Empty: the stored secret stays. A new issuer needs it."}
            autoComplete="off"
            required={provider === null}
            {...input("client_secret")}
          />
          <TextInput label="Scopes" description="Separated by spaces." required {...input("scopes")} />
          <TextInput
            label="Groups claim"
            description="The claim with the names of a person's groups. Empty: groups give no roles."
            {...input("groups_claim")}
          />
        </div>
        <div className="even top">
          {SWITCHES.map(([field, label, description]) => (
            <Switch
              key={field}
              label={label}
              description={description}
              {...form.getInputProps(field, { type: "checkbox" })}
              error={refusals[field]}
            />
          ))}
        </div>
        {save.error && (
          <p className="bad-text" role="alert">
            {save.error.message}
          </p>
        )}
        {test.error && (
          <p className="bad-text" role="alert">
            {test.error.message}
          </p>
        )}
        {test.data && (
          <div role="status">
            {test.data.problems.length === 0 ? (
              <p>The provider answers, and its discovery document can be used.</p>
            ) : (
              test.data.problems.map((problem) => (
                <p key={problem} className="bad-text breaks">
                  {problem}
                </p>
              ))
            )}
          </div>
        )}
        <div className="inline end">
          {provider !== null && (
            <Button variant="default" loading={test.isPending} disabled={form.isDirty()} onClick={() => test.mutate()}>
              Test
            </Button>
          )}
          <Button type="submit" loading={save.isPending} disabled={!isReady}>
            Save
          </Button>
        </div>
      </form>
      <p className="sub" style={{ marginTop: 14 }}>
        <CliLine command={`tidegate identity show --organization ${organization.slug}`} />
      </p>
    </Card>
  );
}
