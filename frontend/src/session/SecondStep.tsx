import { Button, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useMutation } from "@tanstack/react-query";

import { client, unwrap } from "../api/client";
import type { Session } from "../api/types";
import { askKey, canUseKeys } from "./securityKeys";

/** The second step of a sign-in with a password: a code, a security key, or a recovery code. */
export function SecondStep({ onSignedIn, onBack }: { onSignedIn: (session: Session) => void; onBack: () => void }) {
  const form = useForm({ initialValues: { code: "" } });
  const signIn = useMutation({
    mutationFn: (code: string) => unwrap(client.POST("/api/v1/session/second-factor", { body: { code } })),
    onSuccess: onSignedIn,
    onError: () => form.reset(),
  });
  const useKey = useMutation({
    mutationFn: async () => {
      const { options } = await unwrap(client.POST("/api/v1/session/security-key"));
      return unwrap(client.POST("/api/v1/session/security-key/confirm", { body: { credential: await askKey(options) } }));
    },
    onSuccess: onSignedIn,
  });
  return (
    <form className="stack" onSubmit={form.onSubmit(({ code }) => signIn.mutate(code))}>
      <TextInput
        label="Code"
        description="The six digits of your authenticator app, or one of your recovery codes."
        autoComplete="one-time-code"
        autoCapitalize="none"
        spellCheck={false}
        autoFocus
        required
        withAsterisk={false}
        {...form.getInputProps("code")}
        error={signIn.error?.message}
      />
      <Button type="submit" fullWidth loading={signIn.isPending}>
        Continue
      </Button>
      {canUseKeys() && (
        <Button variant="default" fullWidth loading={useKey.isPending} onClick={() => useKey.mutate()}>
          Use a security key
        </Button>
      )}
      {useKey.error && (
        <p className="bad-text" role="alert">
          {useKey.error.message}
        </p>
      )}
      <button type="button" className="plain link small" onClick={onBack}>
        Use another login
      </button>
      <p className="small faint">Lost the device and the recovery codes? Ask an administrator for a reset.</p>
    </form>
  );
}
