import { Button } from "@mantine/core";
import { useInfiniteQuery, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useSearch } from "@tanstack/react-router";
import { useState } from "react";

import { client, unwrap } from "../api/client";
import { poolsQuery, treeQuery } from "../api/queries";
import type { Budget, BudgetAlert } from "../api/types";
import { AskLink } from "../requests/AskLink";
import { isWithin, may } from "../session/access";
import { useSession } from "../session/useSession";
import { Confirm } from "../ui/Confirm";
import { DataTable } from "../ui/DataTable";
import { Page } from "../ui/Page";
import { PagedCard } from "../ui/PagedCard";
import { Empty } from "../ui/states";
import { Time } from "../ui/Time";
import { toastDone, toastError } from "../ui/toast";
import { formatAmount, formatWithUnit, POLICY_WORDS, windowText } from "./amounts";
import { BudgetDialog } from "./BudgetDialog";
import { BudgetUse, Left } from "./BudgetUse";
import { DefaultBudgets } from "./DefaultBudgets";
import { UserCaps } from "./UserCaps";
import { budgetAlertsQuery, budgetsQuery } from "./queries";

type Asked = { kind: "form"; budget: Budget | null } | { kind: "remove"; budget: Budget } | null;

/** Budgets with what is used, on hold and left, and their alerts. */
export function BudgetsPage() {
  const { scope } = useSearch({ from: "/shell/budgets" });
  const session = useSession();
  const tree = useQuery(treeQuery);
  const pools = useQuery(poolsQuery);
  const budgets = useInfiniteQuery(budgetsQuery(scope));
  const alerts = useInfiniteQuery(budgetAlertsQuery(scope));
  const [asked, setAsked] = useState<Asked>(null);
  const nodes = (tree.data ?? []).filter(
    (node) =>
      node.archived_at === null &&
      isWithin(node.path, scope ?? "") &&
      (may(session, "manage_prices", node.path) || may(session, "manage_quota", node.path)),
  );
  const names = new Map(budgets.data?.pages.flatMap((page) => page.items.map((one) => [one.id, one] as const)));
  const close = () => setAsked(null);
  return (
    <Page
      title="Budgets"
      lead="How much teams and people may use over a period. A quota limits GPUs at once; a budget limits use over time."
      actions={nodes.length > 0 && <Button onClick={() => setAsked({ kind: "form", budget: null })}>New budget…</Button>}
    >
      <div className="rows">
        <PagedCard
          query={budgets}
          label="budgets"
          lines={6}
          command={scope ? `tidegate budgets list --node ${scope}` : "tidegate budgets list"}
          empty={<Empty>There is no budget that you may see. People who manage quotas or prices make them.</Empty>}
        >
          {(items) => (
            <BudgetTable
              budgets={items}
              onChange={(budget) => setAsked({ kind: "form", budget })}
              onRemove={(budget) => setAsked({ kind: "remove", budget })}
            />
          )}
        </PagedCard>
        <h2>Alerts</h2>
        <PagedCard
          query={alerts}
          label="alerts"
          lines={3}
          command="tidegate budgets show NAME"
          empty={<Empty>No alerts yet. A budget alerts at 50, 80, 90 and 100 %, once in each period.</Empty>}
        >
          {(items) => <AlertTable alerts={items} budgets={names} />}
        </PagedCard>
        <DefaultBudgets scope={scope} nodes={nodes.filter((node) => node.kind !== "team")} />
        <UserCaps
          scope={scope}
          teams={nodes.filter((node) => node.kind === "team" && may(session, "manage_quota", node.path))}
          pools={pools.data ?? []}
        />
      </div>
      {asked?.kind === "form" && (
        <BudgetDialog budget={asked.budget} nodes={nodes} pools={pools.data ?? []} onClose={close} />
      )}
      {asked?.kind === "remove" && <RemoveDialog budget={asked.budget} onClose={close} />}
    </Page>
  );
}

function BudgetTable({
  budgets,
  onChange,
  onRemove,
}: {
  budgets: readonly Budget[];
  onChange: (budget: Budget) => void;
  onRemove: (budget: Budget) => void;
}) {
  const unheld = [...new Set(budgets.flatMap((budget) => budget.not_held_on))].sort();
  const as_of = budgets.map(({ state }) => state.as_of).sort()[0];
  return (
    <>
      <DataTable
        label="Budgets"
        className="budgets"
        rows={budgets}
        rowKey={(row) => row.id}
        columns={[
          {
            header: "Budget",
            isHeading: true,
            headClass: "budget-name",
            title: (row) => row.name,
            cell: (row) => (
              <>
                <b>{row.name}</b>
                <span className="small dim budget-owner">
                  {row.user === null ? row.node : `${row.user} in ${row.node}`}
                  {row.pool !== null && ` · ${row.pool}`}
                </span>
              </>
            ),
          },
          { header: "Use", headClass: "budget-use", cell: (row) => <BudgetUse budget={row} /> },
          { header: "Left", isRight: true, only: "wide", cell: (row) => <Left budget={row} /> },
          { header: "Limit", isRight: true, only: "wide", cell: (row) => <Limit budget={row} /> },
          { header: "Forecast", isRight: true, only: "wide", cell: (row) => <ForecastText budget={row} /> },
          {
            header: "At 100 %",
            only: "wide",
            cell: (row) => (
              <>
                {POLICY_WORDS[row.policy]}
                {row.not_held_on.length > 0 && (
                  <span className="small dim budget-owner">counted, not held on {row.not_held_on.join(", ")}</span>
                )}
              </>
            ),
          },
          {
            header: <span className="visually-hidden">Actions</span>,
            isRight: true,
            cell: (row) =>
              !row.can_edit ? (
                row.user === null && <AskLink asked={{ ask: "budget", target: row.id }}>Ask for more…</AskLink>
              ) : (
                <span className="budget-actions">
                  <Button size="compact-sm" variant="default" aria-label={`Change ${row.name}`} onClick={() => onChange(row)}>
                    Change…
                  </Button>
                  <Button size="compact-sm" variant="default" aria-label={`Remove ${row.name}`} onClick={() => onRemove(row)}>
                    Remove…
                  </Button>
                </span>
              ),
          },
        ]}
      />
      <p className="small dim more">
        Blue: used. Hatched: on hold, the most that running jobs may still use. Line: range of the forecast. Tick: the limit.
        Jobs given to a cluster directly count.
        {unheld.length > 0 && ` On ${unheld.join(", ")} they start without asking: counted, not held.`}
        {as_of !== undefined && (
          <>
            {" "}
            As of <Time at={as_of} show="relative" />.
          </>
        )}
      </p>
    </>
  );
}

function Limit({ budget }: { budget: Budget }) {
  return (
    <>
      {formatWithUnit(budget.limit, budget)}
      <span className="small dim budget-owner">per {windowText(budget)}</span>
    </>
  );
}

function ForecastText({ budget }: { budget: Budget }) {
  const { forecast, forecast_low: low, forecast_high: high } = budget.state;
  if (forecast === null || low === null || high === null) return <span className="dim">–</span>;
  return (
    <>
      <span className={forecast >= budget.limit ? "warn-text" : undefined}>{formatAmount(forecast, budget)}</span>
      <span className="small dim budget-owner">
        {formatAmount(low, budget)} to {formatAmount(high, budget)}
      </span>
    </>
  );
}

function AlertTable({ alerts, budgets }: { alerts: readonly BudgetAlert[]; budgets: ReadonlyMap<string, Budget> }) {
  return (
    <DataTable
      label="Alerts"
      rows={alerts}
      rowKey={(row) => row.id}
      columns={[
        { header: "Time", cell: (row) => <Time at={row.at} show="both" /> },
        {
          header: "Budget",
          isHeading: true,
          className: "budget-name",
          cell: (row) => budgets.get(row.budget)?.name ?? "a budget not listed here",
        },
        {
          header: "Reached",
          cell: (row) => (row.kind === "forecast" ? `forecast of ${row.percent} %` : `${row.percent} % of the limit`),
        },
        {
          header: "Amount",
          isRight: true,
          only: "wide",
          cell: (row) => {
            const budget = budgets.get(row.budget);
            return budget && `${formatAmount(row.amount, budget)} of ${formatWithUnit(row.limit, budget)}`;
          },
        },
      ]}
    />
  );
}

function RemoveDialog({ budget, onClose }: { budget: Budget; onClose: () => void }) {
  const queryClient = useQueryClient();
  const remove = useMutation({
    mutationFn: () =>
      unwrap(
        client.DELETE("/api/v1/budgets/{budget_id}", {
          params: { path: { budget_id: budget.id }, header: { "If-Match": `"v${budget.version}"` } },
        }),
      ),
    onSuccess: () => toastDone(`Budget ${budget.name} is removed`),
    onError: toastError,
    onSettled: () => {
      onClose();
      return queryClient.invalidateQueries({ queryKey: ["reports"] });
    },
  });
  return (
    <Confirm
      title={`Remove ${budget.name}?`}
      isOpen
      isBusy={remove.isPending}
      confirmLabel="Remove"
      isDangerous
      onConfirm={() => remove.mutate()}
      onClose={onClose}
    >
      <p>Its limit no longer applies, and its alerts are deleted. The audit log keeps both.</p>
    </Confirm>
  );
}
