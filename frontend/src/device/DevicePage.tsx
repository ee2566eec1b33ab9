import { Button, TextInput } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useState } from "react";

import { client, unwrap } from "../api/client";
import { tokensQuery } from "../api/queries";
import type { DeviceLogin } from "../api/types";
import { useSession } from "../session/useSession";
import { Card } from "../ui/Card";
import { CliLine } from "../ui/CliLine";
import { Fact, Facts } from "../ui/Facts";
import { Page } from "../ui/Page";
import { Lines } from "../ui/states";
import { Time } from "../ui/Time";
import { deviceLoginQuery } from "./queries";

/** A login of a machine without a browser: its code is entered here, and approved or refused. */
export function DevicePage() {
  const { code } = useSearch({ from: "/shell/device" });
  return (
    <Page
      title="Log a machine in"
      lead={
        <>
          For <code>tidegate login</code> on a machine without a browser.
        </>
      }
    >
      <Card className="stack narrow">{code === undefined ? <CodeForm /> : <Login key={code} code={code} />}</Card>
      <p className="sub" style={{ marginTop: 14 }}>
        <CliLine command={`tidegate login --server ${globalThis.location.origin}`} />
      </p>
    </Page>
  );
}

function CodeForm({ refusal }: { refusal?: string }) {
  const navigate = useNavigate();
  const [text, setText] = useState("");
  return (
    <form
      className="stack"
      onSubmit={(event) => {
        event.preventDefault();
        void navigate({ to: "/device", search: { code: text.trim() } });
      }}
    >
      <TextInput
        label="Code"
        description="As the terminal shows it, such as WDJB-MJHT."
        autoComplete="off"
        autoFocus
        required
        withAsterisk={false}
        maxLength={20}
        value={text}
        onChange={(event) => setText(event.currentTarget.value)}
      />
      {refusal !== undefined && (
        <p className="bad-text" role="alert">
          {refusal}
        </p>
      )}
      <div>
        <Button type="submit" disabled={text.trim() === ""}>
          Continue
        </Button>
      </div>
    </form>
  );
}

function Login({ code }: { code: string }) {
  const { user } = useSession();
  const queryClient = useQueryClient();
  const login = useQuery(deviceLoginQuery(code));
  const decide = useMutation({
    mutationFn: async (isApproved: boolean) => {
      const params = { path: { user_code: code } };
      await unwrap(
        isApproved
          ? client.POST("/api/v1/device-logins/{user_code}/approve", { params })
          : client.POST("/api/v1/device-logins/{user_code}/refuse", { params }),
      );
      return isApproved;
    },
    onSuccess: () => void queryClient.invalidateQueries({ queryKey: tokensQuery().queryKey }),
  });
  if (decide.data !== undefined)
    return (
      <p role="status">
        {decide.data
          ? "The machine is logged in. Close this page, and go on in the terminal."
          : "The login is refused. The machine gets no token."}
      </p>
    );
  if (login.error) return <CodeForm refusal={login.error.message} />;
  if (login.data === undefined) return <Lines count={4} label="Loading the login" />;
  return (
    <>
      <h2>
        Is <code>{login.data.user_code}</code> the code in your terminal?
      </h2>
      <LoginFacts login={login.data} account={user.login} />
      {!login.data.is_own_address && (
        <Card tone="warn" role="note">
          <p>
            The login was started from another address than yours. Refuse it unless you started it yourself, on that
            machine.
          </p>
        </Card>
      )}
      <p>Nobody of your organization will ever send you a code. Refuse a login that you did not start.</p>
      {decide.error && (
        <p className="bad-text" role="alert">
          {decide.error.message}
        </p>
      )}
      <div className="inline">
        <Button loading={decide.isPending && decide.variables} onClick={() => decide.mutate(true)}>
          Approve
        </Button>
        <Button
          variant="default"
          c="var(--bad)"
          loading={decide.isPending && !decide.variables}
          onClick={() => decide.mutate(false)}
        >
          Refuse
        </Button>
      </div>
    </>
  );
}

function LoginFacts({ login, account }: { login: DeviceLogin; account: string }) {
  return (
    <Facts label="The login" isLeft>
      <Fact name="Machine">
        <span className="breaks">{login.host}</span> <span className="dim">(its own words)</span>
      </Fact>
      <Fact name="Address">
        <code className="breaks">{login.address || "unknown"}</code>
      </Fact>
      <Fact name="Started">
        <Time at={login.created_at} />
      </Fact>
      <Fact name="Acts as">
        <span className="breaks">{account}</span>
      </Fact>
      <Fact name="May">{login.scopes.join(", ")}</Fact>
      <Fact name="Token lives">{login.token_days === 1 ? "1 day" : `${login.token_days} days`}</Fact>
    </Facts>
  );
}
