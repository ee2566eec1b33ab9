import { Button, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { client, unwrap } from "../api/client";
import { signInOptionsQuery } from "../api/queries";

/** Why a sign-in with an identity provider ended here, by the code in the address. */
const REFUSALS: Record<string, string> = {
  cancelled: "You cancelled the sign-in at your organization. Try again, or sign in with a password.",
  expired: "This sign-in has expired, or began in another browser. Begin again.",
  unreachable: "Your organization's identity provider does not answer. Try again in a minute.",
  not_proved: "Your organization's identity provider gave no valid answer. Begin again; if it stays so, tell an administrator.",
  no_account: "You have no account here yet. Ask an administrator of your organization for one.",
  deactivated: "Your account is deactivated. Ask an administrator of your organization.",
  switched_off: "Sign-in with this identity provider is switched off. Sign in with a password, or ask an administrator.",
};

/** Leaves for the identity provider of an organization: a button for each known one, or by its name. */
export function OrganizationSignIn({
  organization,
  next,
  refused,
}: {
  organization: string | undefined;
  next: string | undefined;
  refused: string | undefined;
}) {
  const options = useQuery(signInOptionsQuery(organization));
  const [isNaming, setNaming] = useState(false);
  const form = useForm({ initialValues: { organization: "" } });
  const begin = useMutation({
    mutationFn: (slug: string) =>
      unwrap(client.POST("/api/v1/session/provider", { body: { organization: slug, next: next ?? "/" } })),
    onSuccess: ({ authorization_url }) => globalThis.location.assign(authorization_url),
  });
  const providers = options.data?.providers ?? [];
  const why = begin.error?.message ?? (refused === undefined ? undefined : REFUSALS[refused]);
  return (
    <div className="stack">
      {why !== undefined && (
        <p className="bad-text" role="alert">
          {why}
        </p>
      )}
      {providers.map((each) => (
        <Button
          key={each.organization}
          fullWidth
          variant="default"
          loading={begin.isPending && begin.variables === each.organization}
          onClick={() => begin.mutate(each.organization)}
        >
          Continue with {each.name}
        </Button>
      ))}
      {isNaming ? (
        <form className="stack" onSubmit={form.onSubmit((values) => begin.mutate(values.organization.trim()))}>
          <TextInput
            label="Organization"
            description="The end of your login, after the @."
            autoFocus
            spellCheck={false}
            autoCapitalize="none"
            {...form.getInputProps("organization")}
          />
          <Button
            type="submit"
            variant="default"
            fullWidth
            loading={begin.isPending}
            disabled={form.values.organization.trim() === ""}
          >
            Continue
          </Button>
        </form>
      ) : (
        <button type="button" className="plain link small" onClick={() => setNaming(true)}>
          Sign in with {providers.length > 0 ? "another" : "your"} organization
        </button>
      )}
    </div>
  );
}
