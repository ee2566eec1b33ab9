import { Button, Drawer, Select, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { ApiError, client, unwrap } from "../api/client";
import { poolsQuery, priorityClassesQuery } from "../api/queries";
import type { TimeLimit, TreeNode } from "../api/types";
import { may } from "../session/access";
import { useSession } from "../session/useSession";
import { Card } from "../ui/Card";
import { CliLine } from "../ui/CliLine";
import { DataTable } from "../ui/DataTable";
import { Empty, Lines, QueryView } from "../ui/states";
import { toastDone } from "../ui/toast";
import { formatDuration } from "../ui/units";
import { useReturnFocus } from "../ui/useReturnFocus";
import { LIMIT_FIELDS, readField, type Value } from "./fields";
import { timeLimitsQuery } from "./queries";
import { RulesForm } from "./RulesForm";

/** The default and longest time limits of pools, and of the nodes and classes of an organization. */
export function TimeLimits({ organization, nodes }: { organization: TreeNode; nodes: readonly TreeNode[] }) {
  const session = useSession();
  const queryClient = useQueryClient();
  const limits = useQuery(timeLimitsQuery);
  const [chosen, setChosen] = useState<string | null>(null);
  const [isMaking, setMaking] = useState(false);
  const mayMake = may(session, "manage_quota", organization.path) || may(session, "manage_clusters", "");
  const readAgain = () => {
    void queryClient.invalidateQueries({ queryKey: timeLimitsQuery.queryKey });
    setChosen(null);
    setMaking(false);
  };
  return (
    <Card label="Time limits">
      <h2>Time limits of jobs</h2>
      <QueryView query={limits} loading={<Lines count={3} label="Loading time limits" />}>
        {(found) => {
          const here = found.filter((each) => each.organization === null || each.organization === organization.slug);
          const open = here.find((each) => each.id === chosen && each.can_edit);
          return (
            <>
              {here.length === 0 ? (
                <Empty>No time limits yet. Jobs may ask for up to 365 d, or for none.</Empty>
              ) : (
                <LimitTable limits={here} onChoose={setChosen} />
              )}
              {open && (
                <Side title={`Time limits of ${ownerText(open)}`} onClose={() => setChosen(null)}>
                  <RulesForm
                    rules={open}
                    fields={LIMIT_FIELDS}
                    onSave={(patch, version) =>
                      unwrap(
                        client.PATCH("/api/v1/time-limits/{limit_id}", {
                          params: { path: { limit_id: open.id }, header: { "If-Match": `"v${version}"` } },
                          body: patch,
                        }),
                      )
                    }
                    onSaved={readAgain}
                  />
                  <Removal found={open} onRemoved={readAgain} />
                </Side>
              )}
              {isMaking && (
                <Side title="New time limits" onClose={() => setMaking(false)}>
                  <NewLimits organization={organization} nodes={nodes} taken={here} onMade={readAgain} />
                </Side>
              )}
            </>
          );
        }}
      </QueryView>
      <p className="small faint">
        The strictest longest limit binds a job. A job without a limit gets the nearest default: of its class, its team,
        the nodes above it, then its pool.
      </p>
      {mayMake && (
        <p>
          <Button className="button-new" variant="default" size="xs" onClick={() => setMaking(true)}>
            New time limits…
          </Button>
        </p>
      )}
      <p>
        <CliLine command="tidegate limits list" />
      </p>
    </Card>
  );
}

function ownerText(limit: TimeLimit): string {
  if (limit.pool !== null) return `pool ${limit.pool}`;
  return limit.priority_class === null ? (limit.node ?? "") : `class ${limit.priority_class}`;
}

function limitText(seconds: number | null) {
  return seconds === null ? <span className="faint">none</span> : formatDuration(seconds);
}

function LimitTable({ limits, onChoose }: { limits: readonly TimeLimit[]; onChoose: (id: string) => void }) {
  return (
    <DataTable
      rows={limits}
      rowKey={(each) => each.id}
      columns={[
        { header: "Of", isHeading: true, cell: ownerText },
        { header: "Default", isRight: true, cell: (each) => limitText(each.default_s) },
        { header: "Longest", isRight: true, cell: (each) => limitText(each.longest_s) },
        limits.some((each) => each.can_edit) && {
          header: <span className="visually-hidden">Change</span>,
          isRight: true,
          cell: (each) =>
            each.can_edit && (
              <button
                type="button"
                className="plain link small"
                aria-label={`Change the time limits of ${ownerText(each)}`}
                onClick={() => onChoose(each.id)}
              >
                change
              </button>
            ),
        },
      ]}
    />
  );
}

function Side({ title, onClose, children }: { title: string; onClose: () => void; children: React.ReactNode }) {
  useReturnFocus();
  return (
    <Drawer
      opened
      onClose={onClose}
      position="right"
      size="lg"
      title={<b>{title}</b>}
      closeButtonProps={{ "aria-label": "Close" }}
    >
      {children}
    </Drawer>
  );
}

function Removal({ found, onRemoved }: { found: TimeLimit; onRemoved: () => void }) {
  const remove = useMutation({
    mutationFn: () =>
      unwrap(
        client.DELETE("/api/v1/time-limits/{limit_id}", {
          params: { path: { limit_id: found.id }, header: { "If-Match": `"v${found.version}"` } },
        }),
      ),
    onSuccess: () => {
      toastDone(`The time limits of ${ownerText(found)} are removed`);
      onRemoved();
    },
  });
  return (
    <div className="stack removal">
      {remove.error && (
        <p className="bad-text" role="alert">
          {remove.error.message}
        </p>
      )}
      <Button
        className="fit"
        variant="default"
        size="xs"
        c="var(--bad)"
        loading={remove.isPending}
        onClick={() => remove.mutate()}
      >
        Remove
      </Button>
    </div>
  );
}

/** First limits of a pool, a node or a class that has none. */
function NewLimits({
  organization,
  nodes,
  taken,
  onMade,
}: {
  organization: TreeNode;
  nodes: readonly TreeNode[];
  taken: readonly TimeLimit[];
  onMade: () => void;
}) {
  const session = useSession();
  const pools = useQuery({ ...poolsQuery, enabled: may(session, "manage_clusters", "") });
  const classes = useQuery(priorityClassesQuery(organization.slug));
  const form = useForm({ initialValues: { owner: "", default_s: "", longest_s: "" } });
  const inside = nodes.filter(
    (node) => node.slug === organization.slug || node.path.startsWith(`${organization.path}/`),
  );
  const owners = [
    { group: "Pools", items: (pools.data ?? []).map((pool) => ({ value: `pool:${pool.name}`, label: pool.name })) },
    {
      group: "Teams and departments",
      items: inside
        .filter((node) => may(session, "manage_quota", parentOf(node.path)))
        .map((node) => ({ value: `node:${node.path}`, label: node.path })),
    },
    {
      group: "Priority classes",
      items: may(session, "manage_quota", organization.path)
        ? (classes.data ?? []).map((each) => ({ value: `priority_class:${each.name}`, label: each.name }))
        : [],
    },
  ].map(({ group, items }) => ({ group, items: items.filter(({ value }) => !taken.some((each) => keyOf(each) === value)) }));
  const reads = LIMIT_FIELDS.map((field) => ({
    field,
    read: readField(field, form.values[field.name as "default_s" | "longest_s"]),
  }));
  const [kind, ...name] = form.values.owner.split(":");
  const make = useMutation({
    mutationFn: () =>
      unwrap(
        client.POST("/api/v1/time-limits", {
          body: {
            [kind ?? ""]: name.join(":"),
            ...(kind === "priority_class" ? { organization: organization.slug } : {}),
            ...(Object.fromEntries(
              reads.flatMap(({ field, read }) => ("value" in read ? [[field.name, read.value]] : [])),
            ) as Record<string, Value>),
          },
        }),
      ),
    onSuccess: (made) => {
      toastDone(`The time limits of ${ownerText(made)} are set`);
      onMade();
    },
  });
  const refusals = make.error instanceof ApiError ? make.error.fieldErrors : {};
  const values = reads.map(({ read }) => ("value" in read ? read.value : null));
  const isReady =
    form.values.owner !== "" && reads.every(({ read }) => "value" in read) && values.some((value) => value !== null);
  return (
    <form
      className="stack"
      onSubmit={form.onSubmit(() => {
        if (isReady) make.mutate();
      })}
    >
      <Select
        label="Of"
        searchable
        placeholder="A pool, a team or a class"
        data={owners.filter(({ items }) => items.length > 0)}
        value={form.values.owner || null}
        onChange={(owner) => form.setFieldValue("owner", owner ?? "")}
      />
      {reads.map(({ field, read }) => (
        <TextInput
          key={field.name}
          label={field.label}
          description={field.meaning}
          {...form.getInputProps(field.name)}
          error={refusals[field.name] ?? ("error" in read ? read.error : undefined)}
        />
      ))}
      {make.error && (
        <p className="bad-text" role="alert">
          {make.error.message}
        </p>
      )}
      <Button className="fit" type="submit" loading={make.isPending} disabled={!isReady}>
        Save
      </Button>
    </form>
  );
}

/** The path above a node; "" above an organization, which stands for the platform. */
function parentOf(path: string): string {
  return path.includes("/") ? path.slice(0, path.lastIndexOf("/")) : "";
}

function keyOf(limit: TimeLimit): string {
  if (limit.pool !== null) return `pool:${limit.pool}`;
  return limit.priority_class === null ? `node:${limit.node ?? ""}` : `priority_class:${limit.priority_class}`;
}
