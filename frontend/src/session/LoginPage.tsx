import { Button, PasswordInput, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useSearch } from "@tanstack/react-router";

import { ApiError, client, rememberCsrfToken, unwrap } from "../api/client";
import { installationQuery, sessionQuery } from "../api/queries";
import { Card } from "../ui/Card";
import { usePageTitle } from "../ui/usePageTitle";
import { safeNext } from "./access";
import { forgetAllButSession } from "./forget";
import { Redirect } from "./Redirect";
import "./login.css";

export function LoginPage() {
  usePageTitle("Sign in");
  const { next } = useSearch({ from: "/login" });
  const queryClient = useQueryClient();
  // Also fetches the CSRF cookie that signing in needs.
  const session = useQuery(sessionQuery);
  const installation = useQuery(installationQuery);
  const form = useForm({ initialValues: { login: "", password: "" } });
  const signIn = useMutation({
    mutationFn: (body: typeof form.values) => unwrap(client.POST("/api/v1/session", { body })),
    onSuccess: (answer) => {
      forgetAllButSession(queryClient);
      rememberCsrfToken(answer.csrf_token);
      queryClient.setQueryData(sessionQuery.queryKey, answer);
    },
  });

  if (session.data) return <Redirect href={safeNext(next)} />;
  const fieldErrors = signIn.error instanceof ApiError ? signIn.error.fieldErrors : {};
  const hasFieldErrors = "login" in fieldErrors || "password" in fieldErrors;
  return (
    <main className="login">
      <form
        className="card stack"
        onSubmit={form.onSubmit((values) => signIn.mutate(values))}
      >
        <div>
          <div className="brand">
            <span aria-hidden="true">≋</span> Tidegate
          </div>
          <h1>Sign in</h1>
          <p className="sub">One quota for every GPU, on every cluster.</p>
        </div>
        <TextInput
          label="Login"
          autoComplete="username"
          autoFocus
          required
          withAsterisk={false}
          {...form.getInputProps("login")}
          error={fieldErrors.login}
        />
        <PasswordInput
          label="Password"
          autoComplete="current-password"
          required
          withAsterisk={false}
          {...form.getInputProps("password")}
          error={fieldErrors.password}
        />
        {signIn.error && !hasFieldErrors && (
          <p className="bad-text" role="alert">
            {signIn.error.message}
          </p>
        )}
        {installation.data?.has_administrator === false && (
          <Card tone="warn" role="status">
            <p>This installation has no administrator yet. On its machine, run:</p>
            <code>tidegate-admin create-admin</code>
          </Card>
        )}
        <Button type="submit" fullWidth loading={signIn.isPending}>
          Sign in
        </Button>
        <p className="small faint">Forgot the password? Ask an administrator for a link.</p>
        <p className="small faint">
          From a terminal: <code>tidegate login</code>
        </p>
      </form>
    </main>
  );
}
