import { Button, Checkbox, Modal, Select, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useClipboard } from "@mantine/hooks";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { ApiError, client, unwrap } from "../api/client";
import { tokensQuery } from "../api/queries";
import type { NewToken, Token, TokenScope } from "../api/types";
import { Card } from "../ui/Card";
import { Confirm } from "../ui/Confirm";
import { DataTable } from "../ui/DataTable";
import { useNowMs } from "../ui/now";
import { Empty, Lines, QueryView } from "../ui/states";
import { Time } from "../ui/Time";
import { toastDone, toastError } from "../ui/toast";
import { LIFETIMES, OVERLAPS } from "./lifetimes";

const SCOPES = [
  ["read", "read what its owner may see"],
  ["jobs", "submit and manage jobs"],
  ["quotas", "change quotas"],
  ["reports", "read reports and costs"],
  ["admin", "everything else that its owner may do"],
] as const;
/**
 * The tokens of one account: they are made, replaced and revoked here.
 * `user` is the login of another one's account; of people, others only revoke.
 */
export function Tokens({ title, user, canMake, cli }: { title: string; user?: string; canMake: boolean; cli: string }) {
  const tokens = useQuery(tokensQuery(user));
  const [isCreating, setCreating] = useState(false);
  const [created, setCreated] = useState<NewToken | null>(null);
  return (
    <>
      {created && (
        <Secret title={`Token “${created.name}” of ${created.user}`} secret={created.secret} onDone={() => setCreated(null)} />
      )}
      <Card>
        <div className="spread">
          <h2>{title}</h2>
          {canMake && <Button onClick={() => setCreating(true)}>New token</Button>}
        </div>
        <QueryView query={tokens} loading={<Lines count={4} label="Loading tokens" />}>
          {(items) =>
            items.length === 0 ? (
              <Empty cli={cli}>No tokens yet.</Empty>
            ) : (
              <TokenTable title={title} tokens={items} user={user} canReplace={canMake} onReplaced={setCreated} />
            )
          }
        </QueryView>
      </Card>
      <Modal
        opened={isCreating}
        onClose={() => setCreating(false)}
        title={user === undefined ? "New token" : `New token of ${user}`}
        closeButtonProps={{ "aria-label": "Close" }}
      >
        <TokenForm
          user={user}
          onCreated={(token) => {
            setCreated(token);
            setCreating(false);
          }}
        />
      </Modal>
    </>
  );
}

/** The secret of a new token, this once. */
export function Secret({ title, secret, onDone }: { title: string; secret: string | null; onDone: () => void }) {
  const clipboard = useClipboard({ timeout: 2000 });
  return (
    <Card tone="good" className="stack" style={{ marginBottom: 14 }} role="status">
      <h2>{title}</h2>
      <p>Copy it now: it is shown this once and kept nowhere in clear.</p>
      <div className="inline">
        <code className="breaks">{secret}</code>
        <Button variant="default" size="xs" onClick={() => clipboard.copy(secret ?? "")}>
          {clipboard.copied ? "Copied" : "Copy"}
        </Button>
      </div>
      <div>
        <Button variant="default" size="xs" onClick={onDone}>
          I have it
        </Button>
      </div>
    </Card>
  );
}

function TokenForm({ user, onCreated }: { user?: string; onCreated: (token: NewToken) => void }) {
  const queryClient = useQueryClient();
  const form = useForm({ initialValues: { name: "", scopes: ["read"] as TokenScope[], days: "30" } });
  const create = useMutation({
    mutationFn: () =>
      unwrap(
        client.POST("/api/v1/tokens", {
          body: { name: form.values.name, scopes: form.values.scopes, expires_in_days: Number(form.values.days), user: user ?? null },
        }),
      ),
    onSuccess: (token) => {
      void queryClient.invalidateQueries({ queryKey: tokensQuery(user).queryKey });
      onCreated(token);
    },
  });
  const refusals = create.error instanceof ApiError ? create.error.fieldErrors : {};
  return (
    <form
      className="stack"
      onSubmit={form.onSubmit(() => create.mutate())}
    >
      <TextInput
        label="Name"
        description="What it is for."
        required
        data-autofocus
        {...form.getInputProps("name")}
        error={refusals.name}
      />
      <Checkbox.Group
        label="Rights"
        value={form.values.scopes}
        error={refusals.scopes}
        onChange={(chosen) =>
          form.setFieldValue("scopes", SCOPES.map(([scope]) => scope).filter((scope) => chosen.includes(scope)))
        }
      >
        <div className="stack" style={{ gap: 8, marginTop: 6 }}>
          {SCOPES.map(([scope, meaning]) => (
            <Checkbox key={scope} value={scope} label={`${scope}: ${meaning}`} />
          ))}
        </div>
      </Checkbox.Group>
      <Select
        label="Expires in"
        allowDeselect={false}
        data={LIFETIMES}
        {...form.getInputProps("days")}
        error={refusals.expires_in_days}
      />
      {create.error && (
        <p className="bad-text" role="alert">
          {create.error.message}
        </p>
      )}
      <div className="inline end">
        <Button type="submit" loading={create.isPending} disabled={form.values.name.trim() === "" || form.values.scopes.length === 0}>
          Create
        </Button>
      </div>
    </form>
  );
}

function TokenTable({
  title,
  tokens,
  user,
  canReplace,
  onReplaced,
}: {
  title: string;
  tokens: readonly Token[];
  user?: string;
  canReplace: boolean;
  onReplaced: (token: NewToken) => void;
}) {
  const now = useNowMs();
  const isExpired = (token: Token) => Date.parse(token.expires_at) <= now;
  const queryClient = useQueryClient();
  const [asked, setAsked] = useState<Token | null>(null);
  const [replaced, setReplaced] = useState<Token | null>(null);
  const revoke = useMutation({
    mutationFn: (token: Token) =>
      unwrap(client.DELETE("/api/v1/tokens/{token_id}", { params: { path: { token_id: token.id } } })),
    onSuccess: (_, token) => {
      toastDone(`Token ${token.name} no longer works`);
      void queryClient.invalidateQueries({ queryKey: tokensQuery(user).queryKey });
      setAsked(null);
    },
    onError: (error) => {
      toastError(error);
      setAsked(null);
    },
  });
  return (
    <>
      <DataTable
        label={title}
        rows={tokens}
        rowKey={(token) => token.id}
        columns={[
          { header: "Name", isHeading: true, className: "breaks", cell: (token) => token.name },
          { header: "Begins with", only: "wide", cell: (token) => <code>{token.prefix}…</code> },
          { header: "May", only: "wide", cell: (token) => token.scopes.join(", ") },
          {
            header: "Expires",
            cell: (token) =>
              token.revoked_at ? (
                <span className="pill bad">revoked</span>
              ) : isExpired(token) ? (
                <span className="pill bad">expired</span>
              ) : (
                <Time at={token.expires_at} />
              ),
          },
          {
            header: "Last used",
            only: "wide",
            cell: (token) => (token.last_used_at ? <Time at={token.last_used_at} /> : "never"),
          },
          {
            header: <span className="visually-hidden">Actions</span>,
            isRight: true,
            cell: (token) =>
              !token.revoked_at &&
              !isExpired(token) && (
                <span className="inline end">
                  {canReplace && (
                    <Button variant="default" size="xs" onClick={() => setReplaced(token)}>
                      Replace
                    </Button>
                  )}
                  <Button variant="default" size="xs" c="var(--bad)" onClick={() => setAsked(token)}>
                    Revoke
                  </Button>
                </span>
              ),
          },
        ]}
      />
      <Modal
        opened={replaced !== null}
        onClose={() => setReplaced(null)}
        title={`Replace ${replaced?.name ?? ""}`}
        closeButtonProps={{ "aria-label": "Close" }}
      >
        {replaced && (
          <Replacing
            token={replaced}
            user={user}
            onReplaced={(token) => {
              onReplaced(token);
              setReplaced(null);
            }}
          />
        )}
      </Modal>
      <Confirm
        isOpen={asked !== null}
        title={`Revoke ${asked?.name ?? ""}?`}
        isBusy={revoke.isPending}
        isDangerous
        confirmLabel="Revoke it"
        onConfirm={() => asked && revoke.mutate(asked)}
        onClose={() => setAsked(null)}
      >
        Whatever uses it stops working at once. This cannot be undone.
      </Confirm>
    </>
  );
}

/** A new token with the same name and scopes; the old one ends when everybody has the new one. */
function Replacing({ token, user, onReplaced }: { token: Token; user?: string; onReplaced: (token: NewToken) => void }) {
  const queryClient = useQueryClient();
  const [overlap, setOverlap] = useState("0");
  const replace = useMutation({
    mutationFn: () =>
      unwrap(
        client.POST("/api/v1/tokens/{token_id}/rotate", {
          params: { path: { token_id: token.id } },
          body: { overlap_s: Number(overlap) },
        }),
      ),
    onSuccess: (made) => {
      void queryClient.invalidateQueries({ queryKey: tokensQuery(user).queryKey });
      onReplaced(made);
    },
  });
  return (
    <form
      className="stack"
      onSubmit={(event) => {
        event.preventDefault();
        replace.mutate();
      }}
    >
      <p>The new token has the same name, scopes and lifetime.</p>
      <Select
        label="The old token ends"
        allowDeselect={false}
        data={OVERLAPS}
        value={overlap}
        onChange={(value) => value && setOverlap(value)}
      />
      {replace.error && (
        <p className="bad-text" role="alert">
          {replace.error.message}
        </p>
      )}
      <div className="inline end">
        <Button type="submit" loading={replace.isPending}>
          Replace
        </Button>
      </div>
    </form>
  );
}
