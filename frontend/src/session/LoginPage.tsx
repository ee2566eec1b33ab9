import { Button, PasswordInput, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useSearch } from "@tanstack/react-router";

import { ApiError, client, rememberCsrfToken, unwrap } from "../api/client";
import { installationQuery, sessionQuery } from "../api/queries";
import type { Session } from "../api/types";
import { Card } from "../ui/Card";
import { usePageTitle } from "../ui/usePageTitle";
import { safeNext } from "./access";
import { forgetAllButSession } from "./forget";
import { LoginFrame } from "./LoginFrame";
import { OrganizationSignIn } from "./OrganizationSignIn";
import { Redirect } from "./Redirect";
import { SecondStep } from "./SecondStep";

export function LoginPage() {
  usePageTitle("Sign in");
  const { next, organization, refused } = useSearch({ from: "/login" });
  const queryClient = useQueryClient();
  // Also fetches the CSRF cookie that signing in needs.
  const session = useQuery(sessionQuery);
  const installation = useQuery(installationQuery);
  const form = useForm({ initialValues: { login: "", password: "" } });
  const enter = (answer: Session) => {
    forgetAllButSession(queryClient);
    rememberCsrfToken(answer.csrf_token);
    queryClient.setQueryData(sessionQuery.queryKey, answer);
  };
  const signIn = useMutation({
    mutationFn: (body: typeof form.values) => unwrap(client.POST("/api/v1/session", { body })),
    onSuccess: enter,
  });

  if (session.data) return <Redirect href={safeNext(next)} />;
  if (signIn.error instanceof ApiError && signIn.error.problem.code === "second_factor_required")
    return (
      <LoginFrame title="Enter a code" line={`The password of ${form.values.login} is right.`}>
        <SecondStep
          onSignedIn={enter}
          onBack={() => {
            form.reset();
            signIn.reset();
          }}
        />
      </LoginFrame>
    );
  const fieldErrors = signIn.error instanceof ApiError ? signIn.error.fieldErrors : {};
  const hasFieldErrors = "login" in fieldErrors || "password" in fieldErrors;
  return (
    <LoginFrame title="Sign in" line="One quota for every GPU, on every cluster.">
      <form className="stack" onSubmit={form.onSubmit((values) => signIn.mutate(values))}>
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
        <Button type="submit" fullWidth loading={signIn.isPending}>
          Sign in
        </Button>
      </form>
      {installation.data?.has_administrator === false && (
        <Card tone="warn" role="status">
          <p>This installation has no administrator yet. On its machine, run:</p>
          <code>tidegate-admin create-admin</code>
        </Card>
      )}
      <OrganizationSignIn organization={organization} next={next} refused={refused} />
      <p className="small faint">Forgot the password? Ask an administrator for a link.</p>
      <p className="small faint">
        From a terminal: <code>tidegate login</code>
      </p>
    </LoginFrame>
  );
}
