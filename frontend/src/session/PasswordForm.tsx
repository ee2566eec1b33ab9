import { Button, PasswordInput } from "@mantine/core";
import { useForm, type GetInputPropsReturnType } from "@mantine/form";
import { useMutation, useQueryClient } from "@tanstack/react-query";

import { ApiError, client, unwrap } from "../api/client";
import { sessionQuery } from "../api/queries";

type InputProps = GetInputPropsReturnType;

/** Changes my password. The session goes on with a new CSRF token. */
export function PasswordForm({ login, onChanged }: { login: string; onChanged: () => void }) {
  const queryClient = useQueryClient();
  const form = useForm({ initialValues: { old: "", fresh: "", again: "" } });
  const { old, fresh, again } = form.values;
  const change = useMutation({
    mutationFn: () =>
      unwrap(client.POST("/api/v1/password", { body: { old_password: old, new_password: fresh } })),
    onSuccess: async () => {
      form.reset();
      await queryClient.invalidateQueries({ queryKey: sessionQuery.queryKey });
      onChanged();
    },
  });
  const refusals = change.error instanceof ApiError ? change.error.fieldErrors : {};
  return (
    <form
      className="stack"
      onSubmit={form.onSubmit(() => change.mutate())}
    >
      {/* Password managers file the new password under this. */}
      <input type="hidden" name="username" autoComplete="username" value={login} readOnly />
      <PasswordInput
        label="Old password"
        autoComplete="current-password"
        required
        withAsterisk={false}
        {...form.getInputProps("old")}
        error={refusals.old_password}
      />
      <NewPassword fresh={form.getInputProps("fresh")} again={form.getInputProps("again")} isSame={fresh === again} error={refusals.new_password} />
      {change.error && !refusals.old_password && !refusals.new_password && (
        <p className="bad-text" role="alert">
          {change.error.message}
        </p>
      )}
      <div>
        <Button type="submit" loading={change.isPending} disabled={old === "" || !isChosen(fresh, again)}>
          Change password
        </Button>
      </div>
    </form>
  );
}

/** A new password, typed twice: the properties of both inputs, and what the server refused. */
export function NewPassword({
  fresh,
  again,
  isSame,
  error,
}: {
  fresh: InputProps;
  again: InputProps;
  isSame: boolean;
  error: string | undefined;
}) {
  return (
    <>
      <PasswordInput
        label="New password"
        description="At least 12 characters."
        autoComplete="new-password"
        required
        withAsterisk={false}
        {...fresh}
        error={error}
      />
      <PasswordInput
        label="New password again"
        autoComplete="new-password"
        required
        withAsterisk={false}
        {...again}
        error={again.value !== "" && !isSame ? "The two differ." : undefined}
      />
    </>
  );
}

export function isChosen(value: string, again: string): boolean {
  return value !== "" && value === again;
}
