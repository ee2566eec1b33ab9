import { Select, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";

import { poolsQuery } from "../api/queries";
import { may } from "../session/access";
import { useSession } from "../session/useSession";
import { Card } from "../ui/Card";
import { Page } from "../ui/Page";
import { useNowMs } from "../ui/now";
import { Empty, isSettled } from "../ui/states";
import { ClosedMonths } from "./ClosedMonths";
import { Corrections } from "./Corrections";
import { Deliveries } from "./Deliveries";
import { Exports } from "./Exports";
import { Figures } from "./Figures";
import { groupsQuery, type Dimension, type Narrowed } from "./groupQueries";
import { GroupsCard, groupingsOf } from "./GroupsCard";
import { IdleCard } from "./IdleCard";
import { jobsOf } from "./JobsLink";
import { MovesCard } from "./MovesCard";
import { NoCosts } from "./NoCosts";
import { asDays, PERIOD_LABELS, resolvePeriod, type Period, type PeriodName } from "./period";
import "../quotas/quota-bar.css";
import "./billing.css";

export function ChargebackPage() {
  const session = useSession();
  const search = useSearch({ from: "/shell/chargeback" });
  const now = useNowMs();
  const name = search.period ?? "month";
  const period = resolvePeriod(name, now, search);
  if (!may(session, "view_costs")) {
    return (
      <Page title="Chargeback" lead="Use and cost by team.">
        <NoCosts />
      </Page>
    );
  }
  return (
    <Page title={period ? `Chargeback · ${period.label}` : "Chargeback"}>
      <Controls name={name} />
      {period === null ? (
        <Card>
          <Empty>Choose a start that lies before the end.</Empty>
        </Card>
      ) : (
        <Report
          period={period}
          by={groupingsOf(search)}
          asked={{
            ...asDays(period),
            ...(search.scope ? { node: search.scope } : {}),
            ...(search.pool ? { pool: search.pool } : {}),
            ...(search.user ? { user: search.user } : {}),
            ...(search.usage ? { usage_class: search.usage } : {}),
          }}
        />
      )}
    </Page>
  );
}

function Report({ period, by, asked }: { period: Period; by: [Dimension] | [Dimension, Dimension]; asked: Narrowed }) {
  const session = useSession();
  const report = useQuery(groupsQuery(by, asked));
  if (asked.node && report.error && isSettled(report.error)) return <NoCosts node={asked.node} />;
  const filter = {
    start: report.data?.start ?? period.start,
    end: report.data?.end ?? period.end,
    ...(asked.pool ? { pool: asked.pool } : {}),
  };
  const node = report.data && jobsOf(report.data, { keys: {} }, session, asked)?.node;
  return (
    <div className="rows">
      {report.data && <Figures report={report.data} asked={asked} />}
      <GroupsCard by={by} asked={asked} report={report} />
      <ClosedMonths asked={asked} />
      {report.data && <Corrections report={report.data} />}
      <IdleCard asked={asked} />
      <MovesCard narrowed={asked} />
      <Exports filter={filter} node={node} />
      {node !== undefined && !node.includes("/") && <Deliveries organization={node} />}
    </div>
  );
}

function Controls({ name }: { name: PeriodName }) {
  const search = useSearch({ from: "/shell/chargeback" });
  const navigate = useNavigate({ from: "/chargeback" });
  const pools = useQuery(poolsQuery);
  const poolNames = pools.data?.map((pool) => pool.name) ?? [];
  const change = (changes: Partial<typeof search>) =>
    void navigate({ search: (before) => ({ ...before, ...changes }), replace: true });
  return (
    <div className="filters" role="group" aria-label="Period and pool">
      <Select
        label="Period"
        allowDeselect={false}
        data={PERIOD_LABELS.map(([value, label]) => ({ value, label }))}
        value={name}
        onChange={(value) => {
          const next = PERIOD_LABELS.find(([each]) => each === value)?.[0];
          if (next === undefined) return;
          const current = resolvePeriod(name, Date.now(), search);
          change(
            next === "custom"
              ? { period: next, start: current?.start, end: current?.end }
              : { period: next, start: undefined, end: undefined },
          );
        }}
      />
      {name === "custom" && (
        <>
          <DayInput label="From" value={search.start} onChange={(start) => change({ start })} />
          <DayInput label="To (not included)" value={search.end} onChange={(end) => change({ end })} />
        </>
      )}
      {poolNames.length > 1 && (
        <Select
          label="Pool"
          placeholder="all"
          clearable
          clearButtonProps={{ "aria-label": "All pools" }}
          data={poolNames}
          value={search.pool ?? null}
          onChange={(pool) => change({ pool: pool ?? undefined })}
        />
      )}
    </div>
  );
}

/** A day of the organization's time zone; the browser's own picker. The address has it as a time. */
function DayInput({
  label,
  value,
  onChange,
}: {
  label: string;
  value: string | undefined;
  onChange: (iso: string | undefined) => void;
}) {
  return (
    <TextInput
      type="date"
      label={label}
      value={value?.slice(0, 10) ?? ""}
      onChange={(event) => {
        const day = event.currentTarget.value;
        onChange(day === "" ? undefined : `${day}T00:00:00Z`);
      }}
    />
  );
}
