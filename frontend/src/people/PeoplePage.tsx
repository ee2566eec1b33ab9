import { Button, Modal, Select, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useInfiniteQuery, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useState } from "react";

import { Sessions } from "../access/sessions";
import { Tokens } from "../access/tokens";
import { ApiError, client, unwrap } from "../api/client";
import { treeQuery, usersQuery } from "../api/queries";
import type { User } from "../api/types";
import { may } from "../session/access";
import { useSession } from "../session/useSession";
import { DataTable } from "../ui/DataTable";
import { Page } from "../ui/Page";
import { PagedCard } from "../ui/PagedCard";
import { Empty } from "../ui/states";
import { toastDone, toastError } from "../ui/toast";
import { DeactivateDialog } from "./DeactivateDialog";
import { FactorsOfPerson } from "./FactorsOfPerson";
import { PasswordLinkDialog } from "./PasswordLinkDialog";

/** People and service accounts, for those who manage members. */
export function PeoplePage() {
  const session = useSession();
  const { user: chosen } = useSearch({ from: "/shell/people" });
  const navigate = useNavigate();
  const users = useInfiniteQuery(usersQuery());
  const [linked, setLinked] = useState<User | null>(null);
  const [isAdding, setAdding] = useState(false);
  const [leaving, setLeaving] = useState<User | null>(null);
  const reactivate = useReactivation();
  const open = users.data?.pages.flatMap((page) => page.items).find(({ login }) => login === chosen);
  const mayManage = (user: User) =>
    user.id !== session.user.id && may(session, "manage_members", user.organization ?? "");
  return (
    <Page
      title="People"
      lead="People sign in with a password. Service accounts work with tokens only."
      actions={
        <Button onClick={() => setAdding(true)}>New account</Button>
      }
    >
      {chosen !== undefined && (
        <div style={{ marginBottom: 14 }}>
          <Tokens
            key={chosen}
            title={`Tokens of ${chosen}`}
            user={chosen === session.user.login ? undefined : chosen}
            canMake={open?.kind === "service" || chosen === session.user.login}
            cli={`tidegate token ls --user ${chosen}`}
          />
          {open?.kind === "person" && chosen !== session.user.login && (
            <>
              <FactorsOfPerson key={`factors of ${chosen}`} person={open} />
              <Sessions key={`sessions of ${chosen}`} title={`Sessions of ${chosen}`} user={chosen} />
            </>
          )}
          <Button
            variant="default"
            size="xs"
            mt={10}
            onClick={() => void navigate({ to: "/people", search: {} })}
          >
            Close
          </Button>
        </div>
      )}
      <PagedCard
        query={users}
        label="people"
        lines={6}
        command="tidegate user ls"
        empty={<Empty>No accounts yet.</Empty>}
      >
        {(items) => (
          <DataTable
            label="People"
            rows={items}
            rowKey={(user) => user.id}
            columns={[
              {
                header: "Login",
                isHeading: true,
                className: "breaks",
                cell: (user) => (
                  <>
                    {user.login} {!user.is_active && <span className="pill bad">deactivated</span>}
                  </>
                ),
              },
              { header: "Name", only: "wide", className: "breaks", cell: (user) => user.name },
              {
                header: "Kind",
                only: "wide",
                cell: (user) => (user.kind === "person" ? "person" : "service account"),
              },
              {
                header: <span className="visually-hidden">Actions</span>,
                isRight: true,
                cell: (user) => (
                  <span className="inline end" style={{ flexWrap: "nowrap" }}>
                    {user.kind === "person" && user.is_active && user.id !== session.user.id && (
                      <Button variant="default" size="xs" onClick={() => setLinked(user)}>
                        Password link
                      </Button>
                    )}
                    <Button
                      variant="default"
                      size="xs"
                      onClick={() => void navigate({ to: "/people", search: { user: user.login } })}
                    >
                      {user.kind === "person" ? "Access" : "Tokens"}
                    </Button>
                    {mayManage(user) &&
                      (user.is_active ? (
                        <Button variant="default" size="xs" c="var(--bad)" onClick={() => setLeaving(user)}>
                          Deactivate…
                        </Button>
                      ) : (
                        <Button
                          variant="default"
                          size="xs"
                          loading={reactivate.isPending && reactivate.variables.id === user.id}
                          onClick={() => reactivate.mutate(user)}
                        >
                          Reactivate
                        </Button>
                      ))}
                  </span>
                ),
              },
            ]}
          />
        )}
      </PagedCard>
      <PasswordLinkDialog user={linked} onClose={() => setLinked(null)} />
      {leaving && <DeactivateDialog user={leaving} onClose={() => setLeaving(null)} />}
      <Modal
        opened={isAdding}
        onClose={() => setAdding(false)}
        title="New account"
        closeButtonProps={{ "aria-label": "Close" }}
      >
        <AccountForm
          onCreated={(user) => {
            setAdding(false);
            if (user.kind === "person") setLinked(user);
            else void navigate({ to: "/people", search: { user: user.login } });
          }}
        />
      </Modal>
    </Page>
  );
}

function useReactivation() {
  const queryClient = useQueryClient();
  return useMutation({
    mutationFn: (user: User) =>
      unwrap(
        client.PATCH("/api/v1/users/{user_id}", { params: { path: { user_id: user.id } }, body: { is_active: true } }),
      ),
    onSuccess: (user) => {
      toastDone(`${user.login} is active`);
      void queryClient.invalidateQueries({ queryKey: ["users"] });
    },
    onError: toastError,
  });
}

/** A person, who is let in with a password link, or a service account. */
function AccountForm({ onCreated }: { onCreated: (user: User) => void }) {
  const queryClient = useQueryClient();
  const session = useSession();
  const tree = useQuery(treeQuery);
  const organizations = (tree.data ?? []).filter(
    ({ kind, path }) => kind === "organization" && may(session, "manage_members", path),
  );
  const form = useForm<{ organization: string | null; kind: User["kind"]; username: string; name: string; email: string }>({
    initialValues: {
      organization: session.user.organization?.slug ?? null,
      kind: "person",
      username: "",
      name: "",
      email: "",
    },
  });
  const { organization, kind, username, name, email } = form.values;
  const create = useMutation({
    mutationFn: () =>
      unwrap(client.POST("/api/v1/users", { body: { organization, username, name, kind, email: kind === "person" ? email : "" } })),
    onSuccess: (user) => {
      toastDone(`${user.login} is created`);
      void queryClient.invalidateQueries({ queryKey: ["users"] });
      onCreated(user);
    },
  });
  const refusals = create.error instanceof ApiError ? create.error.fieldErrors : {};
  return (
    <form
      className="stack"
      onSubmit={form.onSubmit(() => create.mutate())}
    >
      <Select
        label="Organization"
        data={organizations.map(({ slug, name: shown }) => ({ value: slug, label: shown }))}
        {...form.getInputProps("organization")}
        error={refusals.organization}
      />
      <Select
        label="Kind"
        allowDeselect={false}
        data={[
          { value: "person", label: "Person" },
          { value: "service", label: "Service account" },
        ]}
        {...form.getInputProps("kind")}
      />
      <TextInput
        label="User name"
        description="Lower case letters, digits, dot, dash. The login is user name@organization."
        required
        {...form.getInputProps("username")}
        error={refusals.username}
      />
      <TextInput
        label="Name"
        required
        {...form.getInputProps("name")}
        error={refusals.name}
      />
      {kind === "person" && (
        <TextInput
          label="Email"
          description="Optional. Password links are mailed to it where mail is configured."
          {...form.getInputProps("email")}
          error={refusals.email}
        />
      )}
      {create.error && Object.keys(refusals).length === 0 && (
        <p className="bad-text" role="alert">
          {create.error.message}
        </p>
      )}
      <div className="inline end">
        <Button
          type="submit"
          loading={create.isPending}
          disabled={organization === null || username === "" || name.trim() === ""}
        >
          Create
        </Button>
      </div>
    </form>
  );
}
