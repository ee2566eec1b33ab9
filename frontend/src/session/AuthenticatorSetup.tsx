import { Button, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useMutation } from "@tanstack/react-query";
import { useEffect } from "react";

import { ApiError, client, unwrap } from "../api/client";
import { Lines } from "../ui/states";
import { ProofForm } from "./ProofForm";

/** Adds an authenticator app: its key as a QR code and as text, then a code that the app shows. */
export function AuthenticatorSetup({ onAdded }: { onAdded: (recoveryCodes: readonly string[]) => void }) {
  const begin = useMutation({
    mutationFn: (proof: string) =>
      unwrap(client.POST("/api/v1/second-factors/authenticator", { body: proof === "" ? {} : { proof } })),
  });
  const confirm = useMutation({
    mutationFn: (code: string) => unwrap(client.POST("/api/v1/second-factors/authenticator/confirm", { body: { code } })),
    onSuccess: ({ recovery_codes }) => onAdded(recovery_codes),
  });
  const { mutate } = begin;
  useEffect(() => mutate(""), [mutate]);
  const form = useForm({ initialValues: { code: "" } });
  if (begin.data)
    return (
      <form className="stack" onSubmit={form.onSubmit(({ code }) => confirm.mutate(code))}>
        <p>Scan the picture with an authenticator app, or enter the key there. Then enter the code that the app shows.</p>
        <img className="qr" src={begin.data.picture} alt="QR code of the key" />
        <div>
          <span className="dim">Key: </span>
          <code className="breaks">{begin.data.key.replace(/(.{4})(?=.)/g, "$1 ")}</code>
        </div>
        <TextInput
          label="Code"
          description="Six digits. The app shows a new code every 30 s."
          autoComplete="one-time-code"
          inputMode="numeric"
          required
          withAsterisk={false}
          data-autofocus
          {...form.getInputProps("code")}
          error={confirm.error?.message}
        />
        <div>
          <Button type="submit" loading={confirm.isPending}>
            Add the app
          </Button>
        </div>
      </form>
    );
  if (begin.error instanceof ApiError && ["proof_required", "invalid_request"].includes(begin.error.problem.code))
    return (
      <ProofForm
        label="Continue"
        isBusy={begin.isPending}
        error={begin.error.problem.code === "proof_required" ? null : begin.error}
        onProof={mutate}
      >
        You signed in more than 10 minutes ago. Prove that it is you to add an app.
      </ProofForm>
    );
  if (begin.error)
    return (
      <p className="bad-text" role="alert">
        {begin.error.message}
      </p>
    );
  return <Lines count={6} label="Making a key" />;
}
