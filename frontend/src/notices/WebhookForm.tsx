import { Button, MultiSelect, Select, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";

import { ApiError, client, unwrap } from "../api/client";
import { treeQuery } from "../api/queries";
import type { NoticeEvent, Webhook, WebhookWithSecret } from "../api/types";
import { may } from "../session/access";
import { useSession } from "../session/useSession";
import { webhooksQuery } from "./webhookQueries";
import { EVENT_WORDS, EVENTS } from "./words";

const KINDS = [
  { value: "slack", label: "Slack, or a chat that takes its format" },
  { value: "teams", label: "Microsoft Teams (workflow)" },
  { value: "signed", label: "Signed JSON (Standard Webhooks)" },
] as const;
const MINE = "";

/** A new webhook, of a node or of my own notices. */
export function WebhookForm({ onCreated }: { onCreated: (webhook: WebhookWithSecret) => void }) {
  const session = useSession();
  const queryClient = useQueryClient();
  const tree = useQuery(treeQuery);
  const nodes = (tree.data ?? []).filter(({ path }) => may(session, "manage_members", path));
  const form = useForm({
    initialValues: {
      name: "",
      kind: "slack" as Webhook["kind"],
      url: "",
      node: MINE,
      events: ["job_failed", "job_preempting"] as NoticeEvent[],
    },
  });
  const create = useMutation({
    mutationFn: () => {
      const { node, ...rest } = form.values;
      return unwrap(client.POST("/api/v1/webhooks", { body: { ...rest, node: node === MINE ? null : node } }));
    },
    onSuccess: (made) => {
      void queryClient.invalidateQueries({ queryKey: webhooksQuery.queryKey });
      onCreated(made);
    },
  });
  const refusals = create.error instanceof ApiError ? create.error.fieldErrors : {};
  return (
    <form className="stack" onSubmit={form.onSubmit(() => create.mutate())}>
      <TextInput label="Name" required data-autofocus {...form.getInputProps("name")} error={refusals.name} />
      <Select label="Kind" allowDeselect={false} data={KINDS} {...form.getInputProps("kind")} />
      <TextInput
        label="Address"
        description="It is kept as a secret and not shown again."
        placeholder="https://"
        required
        {...form.getInputProps("url")}
        error={refusals.url}
      />
      <Select
        label="Events of"
        searchable
        allowDeselect={false}
        data={[{ value: MINE, label: "my own notices" }, ...nodes.map(({ path }) => ({ value: path, label: path }))]}
        {...form.getInputProps("node")}
        error={refusals.node}
      />
      <MultiSelect
        label="Events"
        required
        searchable
        data={EVENTS.map((value) => ({ value, label: EVENT_WORDS[value] }))}
        {...form.getInputProps("events")}
        error={refusals.events}
      />
      {create.error && (
        <p className="bad-text" role="alert">
          {create.error.message}
        </p>
      )}
      <div className="inline end">
        <Button type="submit" loading={create.isPending} disabled={form.values.events.length === 0}>
          Create
        </Button>
      </div>
    </form>
  );
}
