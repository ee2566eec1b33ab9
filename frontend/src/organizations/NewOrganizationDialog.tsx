import { Button, FileInput, Modal, SegmentedControl, Select, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";

import { ApiError, client, unwrap } from "../api/client";
import { poolsQuery } from "../api/queries";
import type { NewOrganization, NewOrganizationRequest } from "../api/types";
import { MadeLink } from "../people/PasswordLinkDialog";
import { formatOf } from "../tree/ImportCard";
import "../clusters/cluster.css";
import { TreeFilePreview } from "../tree/TreeFilePreview";
import { CliLine } from "../ui/CliLine";
import { commandLine, shellQuote } from "../ui/command";
import { toastDone, toastError } from "../ui/toast";
import { parseGpus } from "../ui/units";

/** Makes an organization that works at once, and shows its first administrator's link this once. */
export function NewOrganizationDialog({ onClose }: { onClose: () => void }) {
  const [made, setMade] = useState<NewOrganization | null>(null);
  return (
    <Modal
      opened
      onClose={onClose}
      // A click beside it would lose the link, which is shown once.
      closeOnClickOutside={false}
      size="xl"
      title={made === null ? "New organization" : `${made.name} is created`}
      closeButtonProps={{ "aria-label": "Close" }}
    >
      {made === null ? <OrganizationForm onMade={setMade} /> : <Result made={made} onClose={onClose} />}
    </Modal>
  );
}

function Result({ made, onClose }: { made: NewOrganization; onClose: () => void }) {
  const { first_administrator: login, invitation } = made;
  return (
    <div className="stack">
      {made.team !== null && <p className="breaks">Its first team is {made.team}.</p>}
      {login !== null && <p className="breaks">{login} administers it.</p>}
      {made.password_link && <MadeLink made={made.password_link} />}
      {invitation && (
        <MadeLink
          made={{ ...invitation, user: invitation.email, sent_to: invitation.is_mailed ? invitation.email : null }}
        />
      )}
      {made.missing.map((sentence) => (
        <p key={sentence} className="sub">
          {sentence}
        </p>
      ))}
      <div className="inline end">
        <Link to="/tree/$nodeId/structure" params={{ nodeId: made.id }} className="button-like">
          Open its tree
        </Link>
        <Button variant="default" onClick={onClose}>
          Close
        </Button>
      </div>
    </div>
  );
}

const AT_FIRST = {
  name: "",
  slug: "",
  lets: "invite" as "invite" | "login",
  username: "",
  person: "",
  email: "",
  gpus: "",
  team: "",
  pool: null as string | null,
  currency: "EUR",
  timeZone: Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC",
  tree: null as NewOrganizationRequest["tree"],
};

function OrganizationForm({ onMade }: { onMade: (made: NewOrganization) => void }) {
  const queryClient = useQueryClient();
  const pools = useQuery(poolsQuery);
  const form = useForm({ initialValues: AT_FIRST });
  const [fileName, setFileName] = useState<string | null>(null);
  const typed = form.values;
  const { pool } = typed;
  const mgpu = parseGpus(typed.gpus);
  const create = useMutation({
    mutationFn: (body: NewOrganizationRequest) => unwrap(client.POST("/api/v1/organizations", { body })),
    onSuccess: (made) => {
      toastDone(`${made.name} is created`);
      for (const key of ["tree", "organizations", "users", "quotas"]) void queryClient.invalidateQueries({ queryKey: [key] });
      onMade(made);
    },
  });
  const preview = useMutation({
    mutationFn: (body: NewOrganizationRequest) => unwrap(client.POST("/api/v1/organizations/preview", { body })),
    onError: toastError,
  });
  form.watch("tree", () => preview.reset());
  form.watch("slug", () => preview.reset());
  const refusals = create.error instanceof ApiError ? create.error.fieldErrors : {};
  const isReady =
    typed.name.trim() !== "" &&
    (typed.lets === "invite" ? typed.email !== "" : typed.username !== "" && typed.person.trim() !== "") &&
    (pool === null) === (mgpu === null);
  const hasErrors = (preview.data?.tree?.error_count ?? 0) > 0;
  const choose = async (file: File | null) => {
    setFileName(file?.name ?? null);
    form.setFieldValue(
      "tree",
      file === null ? null : { format: formatOf(file.name).format ?? "csv", text: await file.text() },
    );
  };
  const input = (field: keyof typeof AT_FIRST, refusal: string) => ({
    ...form.getInputProps(field),
    error: refusals[refusal],
  });
  return (
    <form
      className="stack"
      onSubmit={form.onSubmit((values) => {
        if (isReady) create.mutate(bodyOf(values, mgpu));
      })}
    >
      <div className="even top">
        <TextInput label="Name" description="What people read." required maxLength={200} data-autofocus {...input("name", "name")} />
        <TextInput
          label="Slug"
          description="What paths begin with; it never changes. Empty: made from the name."
          maxLength={63}
          spellCheck={false}
          autoCapitalize="none"
          {...input("slug", "slug")}
        />
        <TextInput
          label="First team"
          description="Slug. It gets all of the quota. Empty: main, or no team with a file."
          maxLength={63}
          spellCheck={false}
          autoCapitalize="none"
          {...input("team", "team")}
        />
        <Select
          label="Pool"
          description="Without one no job can be submitted yet."
          clearable
          data={(pools.data ?? []).filter((each) => each.archived_at === null).map(({ name }) => name)}
          {...input("pool", "pool")}
        />
        <TextInput
          label="Guaranteed"
          description="GPUs, or cores, of the pool."
          required={pool !== null}
          inputMode="decimal"
          {...input("gpus", "guaranteed_mgpu")}
          error={
            refusals["guaranteed_mgpu"] ??
            (typed.gpus !== "" && mgpu === null
              ? "Write a number such as 64."
              : typed.gpus !== "" && pool === null
                ? "Choose the pool too."
                : undefined)
          }
        />
        <TextInput
          label="Currency"
          description="Of its prices, such as EUR. Empty: no rate card."
          maxLength={3}
          {...input("currency", "currency")}
        />
        <TextInput
          label="Time zone"
          description="A name such as Europe/Berlin. Later, periods of money follow it."
          required
          maxLength={64}
          spellCheck={false}
          {...input("timeZone", "time_zone")}
        />
      </div>
      <fieldset className="advanced stack">
        <legend>First administrator</legend>
        <SegmentedControl
          aria-label="First administrator"
          data={[
            { value: "invite", label: "Invite by mail" },
            { value: "login", label: "Make an account" },
          ]}
          {...form.getInputProps("lets")}
        />
        <div className="even top">
          {typed.lets === "login" && (
            <TextInput
              label="User name"
              description="The login is user name@slug."
              required
              maxLength={63}
              spellCheck={false}
              autoCapitalize="none"
              {...input("username", "first_administrator")}
            />
          )}
          <TextInput
            label="Email"
            description={
              typed.lets === "invite"
                ? "The invitation is mailed to it, or its link is shown once."
                : "The password link is mailed to it where mail is configured."
            }
            required={typed.lets === "invite"}
            maxLength={254}
            {...input("email", "invited_administrator")}
          />
          <TextInput
            label="Their name"
            description="As colleagues know them."
            required={typed.lets === "login"}
            maxLength={200}
            {...input("person", "")}
          />
        </div>
      </fieldset>
      <FileInput
        label="Tree file"
        description="Its departments, teams and members, as CSV or YAML. Paths begin with the slug."
        placeholder="Choose a .csv or .yaml file"
        accept=".csv,.yaml,.yml"
        clearable
        onChange={(file) => void choose(file)}
      />
      {preview.data && (
        <>
          {preview.data.tree && <TreeFilePreview found={preview.data.tree} above="" />}
          {preview.data.missing.map((sentence) => (
            <p key={sentence} className="sub">
              {sentence}
            </p>
          ))}
        </>
      )}
      {create.error && (
        <p className="bad-text" role="alert">
          {create.error.message}
        </p>
      )}
      <CliLine
        command={commandLine(`tidegate organization create ${shellQuote(typed.name.trim() || "NAME")}`, {
          slug: typed.slug,
          team: typed.team,
          pool,
          gpus: typed.gpus,
          invite: typed.lets === "invite" ? typed.email : null,
          admin: typed.lets === "login" ? typed.username : null,
          "admin-name": typed.person.trim(),
          "admin-email": typed.lets === "login" ? typed.email : null,
          tree: fileName,
          currency: typed.currency,
          "time-zone": typed.timeZone,
        })}
      />
      <div className="inline end">
        {typed.tree && (
          <Button
            variant="default"
            loading={preview.isPending}
            disabled={!isReady}
            onClick={() => preview.mutate(bodyOf(typed, mgpu))}
          >
            Preview
          </Button>
        )}
        <Button type="submit" loading={create.isPending} disabled={!isReady || hasErrors}>
          Create the organization
        </Button>
      </div>
    </form>
  );
}

/** What was typed, as the API takes it; what is empty is left to its defaults. */
function bodyOf(typed: typeof AT_FIRST, mgpu: number | null): NewOrganizationRequest {
  return {
    name: typed.name,
    ...(typed.slug === "" ? {} : { slug: typed.slug }),
    ...(typed.lets === "invite"
      ? { invited_administrator: { email: typed.email, name: typed.person.trim() || null } }
      : { first_administrator: { username: typed.username, name: typed.person, email: typed.email } }),
    team: typed.team || null,
    pool: typed.pool,
    guaranteed_mgpu: mgpu,
    currency: typed.currency === "" ? null : typed.currency,
    time_zone: typed.timeZone,
    ...(typed.tree ? { tree: typed.tree } : {}),
  };
}
