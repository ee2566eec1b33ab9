import { Button, Modal, Select, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { ApiError, client, unwrap } from "../api/client";
import { poolsQuery } from "../api/queries";
import type { NewOrganization, NewOrganizationRequest } from "../api/types";
import { toastDone } from "../ui/toast";
import { parseGpus } from "../ui/units";
import { MadeLink } from "./PasswordLinkDialog";

/** Makes an organization that works at once, and shows its first administrator's link this once. */
export function NewOrganizationDialog({ opened, onClose }: { opened: boolean; onClose: () => void }) {
  const [made, setMade] = useState<NewOrganization | null>(null);
  const close = () => {
    setMade(null);
    onClose();
  };
  return (
    <Modal
      opened={opened}
      onClose={close}
      // A click beside it would lose the link, which is shown once.
      closeOnClickOutside={false}
      size="lg"
      title={made === null ? "New organization" : `${made.name} is created`}
      closeButtonProps={{ "aria-label": "Close" }}
    >
      {made === null ? <OrganizationForm onMade={setMade} /> : <Result made={made} onClose={close} />}
    </Modal>
  );
}

function Result({ made, onClose }: { made: NewOrganization; onClose: () => void }) {
  return (
    <div className="stack">
      <p className="breaks">
        Its first team is {made.team}. {made.first_administrator} administers it.
      </p>
      {made.password_link && <MadeLink made={made.password_link} />}
      {made.missing.map((sentence) => (
        <p key={sentence} className="sub">
          {sentence}
        </p>
      ))}
      <div className="inline end">
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
  username: "",
  person: "",
  email: "",
  gpus: "",
  team: "main",
  pool: null as string | null,
  currency: "EUR",
  timeZone: Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC",
};

function OrganizationForm({ onMade }: { onMade: (made: NewOrganization) => void }) {
  const queryClient = useQueryClient();
  const pools = useQuery(poolsQuery);
  const form = useForm({ initialValues: AT_FIRST });
  const typed = form.values;
  const { pool } = typed;
  const mgpu = parseGpus(typed.gpus);
  const create = useMutation({
    mutationFn: (body: NewOrganizationRequest) => unwrap(client.POST("/api/v1/organizations", { body })),
    onSuccess: (made) => {
      toastDone(`${made.name} is created`);
      for (const key of ["tree", "users", "quotas"]) void queryClient.invalidateQueries({ queryKey: [key] });
      onMade(made);
    },
  });
  const refusals = create.error instanceof ApiError ? create.error.fieldErrors : {};
  const isReady =
    typed.name.trim() !== "" && typed.username !== "" && typed.person.trim() !== "" && (pool === null) === (mgpu === null);
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
          label="First administrator"
          description="User name. The login is user name@slug."
          required
          maxLength={63}
          spellCheck={false}
          autoCapitalize="none"
          {...input("username", "first_administrator")}
        />
        <TextInput label="Their name" description="As colleagues know them." required maxLength={200} {...input("person", "")} />
        <TextInput
          label="Their email"
          description="The password link is mailed to it where mail is configured."
          maxLength={254}
          {...input("email", "")}
        />
        <TextInput
          label="First team"
          description="Slug. The team gets all of the quota."
          required
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
      {create.error && (
        <p className="bad-text" role="alert">
          {create.error.message}
        </p>
      )}
      <div className="inline end">
        <Button type="submit" loading={create.isPending} disabled={!isReady}>
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
    first_administrator: { username: typed.username, name: typed.person, email: typed.email },
    team: typed.team,
    pool: typed.pool,
    guaranteed_mgpu: mgpu,
    currency: typed.currency === "" ? null : typed.currency,
    time_zone: typed.timeZone,
  };
}
