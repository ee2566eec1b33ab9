import { Button, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useMutation } from "@tanstack/react-query";

import { ApiError, client, unwrap } from "../api/client";
import { ProofForm } from "../session/ProofForm";
import { registerKey } from "../session/securityKeys";

/** Adds a security key under a name; asks for the password where the sign-in is not recent. */
export function SecurityKeySetup({ onAdded }: { onAdded: (recoveryCodes: readonly string[]) => void }) {
  const form = useForm({ initialValues: { name: "" } });
  const add = useMutation({
    mutationFn: async ({ name, proof }: { name: string; proof: string }) => {
      const { options } = await unwrap(
        client.POST("/api/v1/second-factors/security-key", { body: proof === "" ? {} : { proof } }),
      );
      const credential = await registerKey(options);
      return unwrap(client.POST("/api/v1/second-factors/security-key/confirm", { body: { name, credential } }));
    },
    onSuccess: ({ recovery_codes }) => onAdded(recovery_codes),
  });
  const problem = add.error instanceof ApiError ? add.error : null;
  const asksProof = problem?.problem.code === "proof_required" || problem?.fieldErrors.proof !== undefined;
  if (asksProof)
    return (
      <ProofForm
        label="Add the key"
        isBusy={add.isPending}
        error={problem.problem.code === "proof_required" ? null : problem}
        onProof={(proof) => add.mutate({ ...form.values, proof })}
      >
        You signed in more than 10 minutes ago. Prove that it is you to add a key.
      </ProofForm>
    );
  return (
    <form className="stack" onSubmit={form.onSubmit((values) => add.mutate({ ...values, proof: "" }))}>
      <p>Use a security key, or the passkey of this device. The browser asks for it.</p>
      <TextInput
        label="Name"
        description="To tell several keys apart."
        required
        withAsterisk={false}
        maxLength={60}
        data-autofocus
        {...form.getInputProps("name")}
        error={problem?.fieldErrors.name}
      />
      {add.error && problem?.fieldErrors.name === undefined && (
        <p className="bad-text" role="alert">
          {add.error.message}
        </p>
      )}
      <div>
        <Button type="submit" loading={add.isPending} disabled={form.values.name.trim() === ""}>
          Add the key
        </Button>
      </div>
    </form>
  );
}
