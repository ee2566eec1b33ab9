import { Button, Select, TextInput } from "@mantine/core";
import type { UseQueryResult } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";

import { Card } from "../ui/Card";
import { CliLine } from "../ui/CliLine";
import { commandLine } from "../ui/command";
import { Empty, Lines, QueryView } from "../ui/states";
import { dimensionWords, isTime } from "./dimensions";
import type { Dimension, GroupedReport, Narrowed } from "./groupQueries";
import { GroupsChart } from "./GroupsChart";
import { GroupsTable } from "./GroupsTable";
import { DIMENSIONS, USAGE_CLASSES, type ChargebackSearch } from "./search";

/** The one or two groupings of an address. */
export function groupingsOf(search: ChargebackSearch): [Dimension] | [Dimension, Dimension] {
  const first = search.by ?? "team";
  const second = search.and;
  return second === undefined || second === first || (isTime(first) && isTime(second)) ? [first] : [first, second];
}

/** Use and cost by any one or two dimensions, as a chart and as a table. */
export function GroupsCard({
  by,
  asked,
  report,
}: {
  by: [Dimension] | [Dimension, Dimension];
  asked: Narrowed;
  report: UseQueryResult<GroupedReport>;
}) {
  const command = commandOf(by, asked);
  return (
    <Card label="Charges by groups">
      <h2>Use and cost by {by.map(dimensionWords).join(" and ")}</h2>
      <Controls first={by[0]} second={by[1]} />
      <QueryView query={report} loading={<Lines count={6} label="Loading the report" />}>
        {(data) =>
          data.rows.length === 0 ? (
            <Empty>Nothing ran in this period, or the filters leave nothing.</Empty>
          ) : (
            <div className="rows" aria-busy={report.isPlaceholderData}>
              <GroupsChart by={by} asked={asked} />
              <GroupsTable report={data} asked={asked} />
            </div>
          )
        }
      </QueryView>
      <div className="inline" style={{ marginTop: 14 }}>
        <Button component="a" href={csvAddress(by, asked)} download variant="default">
          Download CSV
        </Button>
        <CliLine command={command} />
      </div>
    </Card>
  );
}

function csvAddress(by: readonly Dimension[], asked: Narrowed): string {
  const query = new URLSearchParams({ by: by.join(","), ...asked, format: "csv" });
  return `/api/v1/reports/chargeback?${query.toString()}`;
}

function commandOf(by: readonly Dimension[], asked: Narrowed): string {
  return commandLine("tidegate report chargeback", {
    by: by.join(","),
    start: asked.start,
    end: asked.end,
    team: asked.node,
    pool: asked.pool,
    user: asked.user,
    "usage-class": asked.usage_class,
  });
}

function Controls({ first, second }: { first: Dimension; second: Dimension | undefined }) {
  const search = useSearch({ from: "/shell/chargeback" });
  const navigate = useNavigate({ from: "/chargeback" });
  const change = (changes: Partial<typeof search>) =>
    void navigate({ search: (before) => ({ ...before, ...changes }), replace: true });
  const choices = DIMENSIONS.map((value) => ({ value, label: dimensionWords(value) }));
  return (
    <div className="filters" role="group" aria-label="Groupings and filters">
      <Select
        label="Group by"
        allowDeselect={false}
        data={choices}
        value={first}
        onChange={(value) => change({ by: DIMENSIONS.find((each) => each === value) })}
      />
      <Select
        label="and by"
        placeholder="nothing"
        clearable
        clearButtonProps={{ "aria-label": "No second grouping" }}
        data={choices.filter(({ value }) => value !== first && !(isTime(first) && isTime(value)))}
        value={second ?? null}
        onChange={(value) => change({ and: DIMENSIONS.find((each) => each === value) })}
      />
      <Select
        label="Usage class"
        placeholder="all"
        clearable
        clearButtonProps={{ "aria-label": "All usage classes" }}
        data={USAGE_CLASSES.map((value) => ({ value, label: value.replace("_", "-") }))}
        value={search.usage ?? null}
        onChange={(value) => change({ usage: USAGE_CLASSES.find((each) => each === value) })}
      />
      <TextInput
        key={search.user ?? ""}
        label="User"
        placeholder="all"
        defaultValue={search.user ?? ""}
        onBlur={(event) => change({ user: event.currentTarget.value.trim() || undefined })}
        onKeyDown={(event) => {
          if (event.key === "Enter") change({ user: event.currentTarget.value.trim() || undefined });
        }}
      />
    </div>
  );
}
