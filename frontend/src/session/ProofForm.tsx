import { Button, PasswordInput } from "@mantine/core";
import { useForm } from "@mantine/form";

import { ApiError } from "../api/client";

/** Asks for the password or a code before an act. */
export function ProofForm({
  children,
  label,
  isBusy,
  isDangerous = false,
  error,
  onProof,
}: {
  children: string;
  label: string;
  isBusy: boolean;
  isDangerous?: boolean;
  error: Error | null;
  onProof: (proof: string) => void;
}) {
  const form = useForm({ initialValues: { proof: "" } });
  const refusal = error instanceof ApiError ? error.fieldErrors.proof : undefined;
  return (
    <form className="stack" onSubmit={form.onSubmit(({ proof }) => onProof(proof))}>
      <p>{children}</p>
      <PasswordInput
        label="Password, or a code of the app"
        autoComplete="current-password"
        required
        withAsterisk={false}
        data-autofocus
        {...form.getInputProps("proof")}
        error={refusal && "This is neither the password nor the present code."}
      />
      {error && !refusal && (
        <p className="bad-text" role="alert">
          {error.message}
        </p>
      )}
      <div>
        <Button type="submit" color={isDangerous ? "red" : undefined} loading={isBusy}>
          {label}
        </Button>
      </div>
    </form>
  );
}
