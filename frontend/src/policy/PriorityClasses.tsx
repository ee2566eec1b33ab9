import { Button, Drawer } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useState } from "react";

import { client, unwrap } from "../api/client";
import { priorityClassesQuery } from "../api/queries";
import type { PriorityClass, TreeNode } from "../api/types";
import { may } from "../session/access";
import { useSession } from "../session/useSession";
import { Card } from "../ui/Card";
import { CliLine } from "../ui/CliLine";
import { Confirm } from "../ui/Confirm";
import { DataTable } from "../ui/DataTable";
import { Empty, Lines, QueryView } from "../ui/states";
import { toastDone } from "../ui/toast";
import { formatCount, formatDuration, formatGpus, formatMultiplier } from "../ui/units";
import { useReturnFocus } from "../ui/useReturnFocus";
import { CLASS_FIELDS, PRICE_FIELD } from "./fields";
import { NewClassForm } from "./NewClassForm";
import { RulesForm } from "./RulesForm";

/** Jobs that name no class are of it, so it stays. */
const DEFAULT_CLASS = "normal";

/** The priority classes of an organization; who manages its quotas makes and changes them, who manages prices theirs. */
export function PriorityClasses({ organization }: { organization: TreeNode }) {
  const { name } = useSearch({ from: "/shell/policy" });
  const navigate = useNavigate({ from: "/policy" });
  const session = useSession();
  const queryClient = useQueryClient();
  const [isMaking, setMaking] = useState(false);
  const query = priorityClassesQuery(organization.slug);
  const classes = useQuery(query);
  const mayRule = may(session, "manage_quota", organization.path);
  const mayPrice = may(session, "manage_prices", organization.path);
  const choose = (next: string | undefined) =>
    void navigate({ search: (before) => ({ ...before, name: next }), replace: true });
  const readAgain = () => {
    void queryClient.invalidateQueries({ queryKey: query.queryKey });
    choose(undefined);
    setMaking(false);
  };
  const fields = [...(mayRule ? CLASS_FIELDS : []), ...(mayPrice ? [PRICE_FIELD] : [])];
  return (
    <Card label="Priority classes">
      <h2>Priority classes</h2>
      <QueryView query={classes} loading={<Lines count={4} label="Loading priority classes" />}>
        {(found) => {
          if (found.length === 0) return <Empty>No priority classes yet. The first quota of an organization creates them.</Empty>;
          const open = found.find((each) => each.name === name);
          return (
            <>
              <ClassTable
                classes={[...found].sort((a, b) => b.order - a.order)}
                onChoose={fields.length > 0 ? choose : undefined}
              />
              {open && fields.length > 0 && (
                <Side title={`Priority class ${open.name}`} onClose={() => choose(undefined)}>
                  <RulesForm
                    rules={open}
                    fields={open.name === DEFAULT_CLASS ? fields.filter((field) => field.name !== "is_retired") : fields}
                    onSave={(patch, version) =>
                      unwrap(
                        client.PATCH("/api/v1/priority-classes/{class_id}", {
                          params: { path: { class_id: open.id }, header: { "If-Match": `"v${version}"` } },
                          body: patch,
                        }),
                      )
                    }
                    onSaved={readAgain}
                  />
                  {mayRule && open.name !== DEFAULT_CLASS && <Removal found={open} onRemoved={readAgain} />}
                </Side>
              )}
              {isMaking && (
                <Side title={`New priority class of ${organization.name}`} onClose={() => setMaking(false)}>
                  <NewClassForm organization={organization.slug} mayPrice={mayPrice} onMade={readAgain} />
                </Side>
              )}
            </>
          );
        }}
      </QueryView>
      {mayRule && (
        <p>
          <Button className="button-new" variant="default" size="xs" onClick={() => setMaking(true)}>
            New class…
          </Button>
        </p>
      )}
      <p>
        <CliLine command={`tidegate policy classes ${organization.slug}`} />
      </p>
    </Card>
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

function Removal({ found, onRemoved }: { found: PriorityClass; onRemoved: () => void }) {
  const [isAsked, setAsked] = useState(false);
  const remove = useMutation({
    mutationFn: () =>
      unwrap(
        client.DELETE("/api/v1/priority-classes/{class_id}", {
          params: { path: { class_id: found.id }, header: { "If-Match": `"v${found.version}"` } },
        }),
      ),
    onSuccess: () => {
      toastDone(`The class ${found.name} is removed`);
      onRemoved();
    },
    onSettled: () => setAsked(false),
  });
  return (
    <div className="stack removal">
      {remove.error && (
        <p className="bad-text" role="alert">
          {remove.error.message}
        </p>
      )}
      <Button className="fit" variant="default" size="xs" c="var(--bad)" onClick={() => setAsked(true)}>
        Remove…
      </Button>
      <Confirm
        isOpen={isAsked}
        title={`Remove the class ${found.name}?`}
        isBusy={remove.isPending}
        isDangerous
        confirmLabel="Remove it"
        onConfirm={() => remove.mutate()}
        onClose={() => setAsked(false)}
      >
        Only a class that no job was ever of can be removed. One that jobs are or were of is retired instead.
      </Confirm>
    </div>
  );
}

/** The cap of a class in a team, null where it has none. */
function capText(mgpu: number | null): string | null {
  return mgpu === null ? null : formatGpus(mgpu);
}

function ClassTable({
  classes,
  onChoose,
}: {
  classes: readonly PriorityClass[];
  /** Undefined for who may only look. */
  onChoose: ((name: string) => void) | undefined;
}) {
  return (
    <DataTable
      rows={classes}
      rowKey={(each) => each.id}
      columns={[
        {
          header: "Class",
          isHeading: true,
          cell: (each) => (
            <>
              {each.name} {each.is_retired && <span className="pill">retired</span>}
              <div className="small faint">{each.description}</div>
              <div className="only-phone small dim">
                <div>grace {formatDuration(each.grace_period_s)}</div>
                <div>cap {capText(each.team_cap_mgpu) ?? "none"}</div>
                <div>price {formatMultiplier(each.price_multiplier_ppm)}</div>
              </div>
            </>
          ),
        },
        { header: "Priority", isRight: true, cell: (each) => formatCount(each.order) },
        {
          header: "May preempt",
          cell: (each) =>
            each.preempts_across_teams
              ? "lower ones of all teams"
              : each.preempts_within_team
                ? "lower ones of its team"
                : "nobody",
        },
        {
          header: "Grace",
          isRight: true,
          only: "wide",
          cell: (each) => formatDuration(each.grace_period_s),
        },
        {
          header: "Cap in a team",
          isRight: true,
          only: "wide",
          cell: (each) => capText(each.team_cap_mgpu) ?? <span className="faint">none</span>,
        },
        {
          header: "Price",
          isRight: true,
          only: "wide",
          cell: (each) => formatMultiplier(each.price_multiplier_ppm),
        },
        onChoose && {
          header: <span className="visually-hidden">Change</span>,
          isRight: true,
          cell: (each) => (
            <button
              type="button"
              className="plain link small"
              aria-label={`Change ${each.name}`}
              onClick={() => onChoose(each.name)}
            >
              change
            </button>
          ),
        },
      ]}
    />
  );
}
