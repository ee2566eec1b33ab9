import { Button } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";

import { ApiError, client, unwrap } from "../api/client";
import { usePageTitle } from "../ui/usePageTitle";
import { isChosen, NewPassword } from "./PasswordForm";
import "./login.css";

/** Where a password link leads. Its secret is the fragment, which no server is sent. */
export function SetPasswordPage() {
  usePageTitle("Set your password");
  const [secret] = useState(() => globalThis.location.hash.slice(1));
  const form = useForm({ initialValues: { fresh: "", again: "" } });
  const { fresh: password, again } = form.values;
  const set = useMutation({
    mutationFn: () => unwrap(client.POST("/api/v1/password-links/use", { body: { secret, password } })),
    // Used up: it need not stay in the address.
    onSuccess: () => globalThis.history.replaceState(globalThis.history.state, "", "/set-password"),
  });
  const refusal = set.error instanceof ApiError ? set.error.fieldErrors.password : undefined;
  return (
    <main className="login">
      <form
        className="card stack narrow"
        onSubmit={form.onSubmit(() => set.mutate())}
      >
        <div>
          <div className="brand">
            <span aria-hidden="true">≋</span> Tidegate
          </div>
          <h1>Set your password</h1>
        </div>
        {set.data ? (
          <>
            <p role="status">
              The password of <b className="breaks">{set.data.login}</b> is set. Other sessions of this account have ended.
            </p>
            <div>
              <Button component="a" href="/login">
                Sign in
              </Button>
            </div>
          </>
        ) : secret === "" ? (
          <p className="bad-text" role="alert">
            This address is not complete. Open the whole link that you were given.
          </p>
        ) : (
          <>
            <NewPassword
              fresh={form.getInputProps("fresh")}
              again={form.getInputProps("again")}
              isSame={password === again}
              error={refusal}
            />
            {set.error && !refusal && (
              <p className="bad-text" role="alert">
                {set.error.message}
              </p>
            )}
            <div>
              <Button type="submit" loading={set.isPending} disabled={!isChosen(password, again)}>
                Set password
              </Button>
            </div>
          </>
        )}
      </form>
    </main>
  );
}
