import { Button, Modal } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useState } from "react";

import type { Webhook, WebhookWithSecret } from "../api/types";
import { Card } from "../ui/Card";
import { CliLine } from "../ui/CliLine";
import { Confirm } from "../ui/Confirm";
import { DataTable } from "../ui/DataTable";
import { Page } from "../ui/Page";
import { Time } from "../ui/Time";
import { Empty, Lines, QueryView } from "../ui/states";
import { Deliveries } from "./Deliveries";
import { WebhookForm } from "./WebhookForm";
import { removeWebhook, rotateSecret, sendTest, switchWebhook, useAct, webhooksQuery } from "./webhookQueries";
import { EVENT_WORDS } from "./words";
import "./notices.css";

/** Addresses to which events are posted, of nodes that I manage and my own. */
export function WebhooksPage() {
  const { webhook } = useSearch({ from: "/shell/notices/webhooks" });
  const webhooks = useQuery(webhooksQuery);
  const [isCreating, setCreating] = useState(false);
  const [created, setCreated] = useState<WebhookWithSecret | null>(null);
  const chosen = webhooks.data?.find(({ id }) => id === webhook);
  return (
    <Page
      title="Webhooks"
      lead="Post events to Slack, Microsoft Teams, or a program of your own."
      up={<Link to="/notices">Notices</Link>}
      actions={<Button onClick={() => setCreating(true)}>New webhook</Button>}
    >
      {created && <Secret webhook={created} onDone={() => setCreated(null)} />}
      <Card>
        <QueryView query={webhooks} loading={<Lines count={4} label="Loading webhooks" />}>
          {(items) =>
            items.length === 0 ? <Empty>No webhooks yet.</Empty> : <WebhookTable webhooks={items} onRotated={setCreated} />
          }
        </QueryView>
      </Card>
      {chosen && <Deliveries key={chosen.id} webhook={chosen} />}
      <p className="sub" style={{ marginTop: 14 }}>
        <CliLine command={chosen ? `tidegate notify webhooks deliveries ${chosen.id.slice(0, 18)}` : "tidegate notify webhooks list"} />
      </p>
      <Modal
        opened={isCreating}
        onClose={() => setCreating(false)}
        title="New webhook"
        closeButtonProps={{ "aria-label": "Close" }}
      >
        <WebhookForm
          onCreated={(made) => {
            setCreating(false);
            if (made.secret !== "") setCreated(made);
          }}
        />
      </Modal>
    </Page>
  );
}

/** The secret of the signatures, this once. */
function Secret({ webhook, onDone }: { webhook: WebhookWithSecret; onDone: () => void }) {
  return (
    <Card tone="good" className="stack" style={{ marginBottom: 14 }} role="status">
      <h2>Secret of “{webhook.name}”</h2>
      <p>Copy it now: it is shown this once. Messages are signed as Standard Webhooks says.</p>
      <code className="breaks">{webhook.secret}</code>
      <Button variant="default" size="xs" style={{ alignSelf: "start" }} onClick={onDone}>
        I have it
      </Button>
    </Card>
  );
}

function WebhookTable({
  webhooks,
  onRotated,
}: {
  webhooks: readonly Webhook[];
  onRotated: (webhook: WebhookWithSecret) => void;
}) {
  const { webhook: open } = useSearch({ from: "/shell/notices/webhooks" });
  return (
    <DataTable
      label="Webhooks"
      rows={webhooks}
      rowKey={(webhook) => webhook.id}
      isCurrent={(webhook) => webhook.id === open}
      columns={[
        {
          header: "Webhook",
          isHeading: true,
          className: "breaks",
          cell: (webhook) => (
            <div className="notice">
              {webhook.name} <span className="small dim">· {webhook.kind}</span>
              <div className="small dim">
                {webhook.node ?? "my notices"} · {webhook.address}
              </div>
              <div className="small dim">{webhook.events.map((event) => EVENT_WORDS[event]).join(", ")}</div>
              <div className="only-phone">
                <State webhook={webhook} />
              </div>
            </div>
          ),
        },
        { header: "State", only: "wide", className: "breaks", cell: (webhook) => <State webhook={webhook} /> },
        {
          header: <span className="visually-hidden">Actions</span>,
          isRight: true,
          cell: (webhook) => <Actions webhook={webhook} onRotated={onRotated} />,
        },
      ]}
    />
  );
}

function State({ webhook: { disabled_at, disabled_reason, failing_since } }: { webhook: Webhook }) {
  if (disabled_at !== null) {
    return (
      <>
        <span className="pill bad">disabled</span> <span className="small dim">{disabled_reason}</span>
      </>
    );
  }
  if (failing_since === null) return <span className="pill good">ok</span>;
  return (
    <span className="pill warn">
      fails since <Time at={failing_since} />
    </span>
  );
}

function Actions({ webhook, onRotated }: { webhook: Webhook; onRotated: (webhook: WebhookWithSecret) => void }) {
  const navigate = useNavigate({ from: "/notices/webhooks" });
  const [isRemoving, setRemoving] = useState(false);
  const show = () => void navigate({ search: (old) => ({ ...old, webhook: webhook.id }) });
  const test = useAct(sendTest, "A test message is on its way", show);
  const rotate = useAct(rotateSecret, "The secret is new. The old one signs for 24 h, too", onRotated);
  const change = useAct(switchWebhook, webhook.disabled_at === null ? "Disabled" : "Enabled");
  const remove = useAct(removeWebhook, `Removed ${webhook.name}`, () => setRemoving(false));
  const isOn = webhook.disabled_at === null;
  const button = (label: string, onClick: () => void, isBusy = false) => (
    <Button variant="default" size="xs" aria-label={`${label}: ${webhook.name}`} loading={isBusy} onClick={onClick}>
      {label}
    </Button>
  );
  return (
    <div className="inline end">
      {button("Messages", show)}
      {isOn && button("Test", () => test.mutate(webhook), test.isPending)}
      {webhook.kind === "signed" && button("New secret", () => rotate.mutate(webhook), rotate.isPending)}
      {button(isOn ? "Disable" : "Enable", () => change.mutate(webhook), change.isPending)}
      {button("Remove", () => setRemoving(true))}
      <Confirm
        title={`Remove ${webhook.name}?`}
        isOpen={isRemoving}
        isBusy={remove.isPending}
        confirmLabel="Remove"
        isDangerous
        onConfirm={() => remove.mutate(webhook)}
        onClose={() => setRemoving(false)}
      >
        Its messages of the last 30 days are removed, too.
      </Confirm>
    </div>
  );
}
