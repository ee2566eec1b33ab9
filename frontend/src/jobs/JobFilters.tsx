import { Button, Checkbox, MultiSelect, Popover, Select, TextInput } from "@mantine/core";
import { useDebouncedCallback } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";

import { clustersQuery, poolsQuery, priorityClassesQuery } from "../api/queries";
import { localOfUtc, utcOfLocal } from "../ui/localTime";
import { zoneName } from "../ui/units";
import { SavedViews } from "./SavedViews";
import { columnsOf, csvAddress, JOB_COLUMNS, JOB_TYPES, USAGE_CLASSES, type JobColumn, type JobsSearch } from "./search";
import { JOB_STATES, parseStates, stateWord } from "./words";

const TYPING_MS = 300;
type Filters = JobsSearch & { scope?: string };
type Change = (changes: Partial<JobsSearch>) => void;

const COLUMN_WORDS: Record<JobColumn, string> = {
  state: "State",
  team: "Team",
  user: "User",
  class: "Class",
  type: "Type",
  gpus: "GPUs or cores",
  pool: "Pool",
  cluster: "Cluster",
  native_id: "Cluster's id",
  attempt: "Attempt",
  submitted_at: "Submitted",
  started_at: "Started",
  ended_at: "Ended",
};

/** What narrows the list of jobs; fields that few people need open on demand. */
export function JobFilters({
  filters,
  change,
  me,
  organization,
}: {
  filters: Filters;
  change: Change;
  me: string;
  organization: string | undefined;
}) {
  const hasMore = [
    filters.class,
    filters.type,
    filters.cluster,
    filters.since,
    filters.until,
    filters.ended_since,
    filters.ended_until,
  ].some((value) => value !== undefined);
  const [isOpen, setOpen] = useState(hasMore);
  const states = parseStates(filters.state);
  const pools = useQuery(poolsQuery);
  return (
    <div role="search" aria-label="Filter jobs">
      <div className="filters">
        <TypedFilter label="Name, user or ID" value={filters.q} onChange={(q) => change({ q })} isSearch />
        <MultiSelect
          label="State"
          placeholder={states.length === 0 ? "any" : undefined}
          clearable
          clearButtonProps={{ "aria-label": "Any state" }}
          data={JOB_STATES.map((state) => ({ value: state, label: stateWord(state) }))}
          value={states}
          onChange={(chosen) => change({ state: chosen.length > 0 ? chosen.join(",") : undefined })}
        />
        <TypedFilter label="User" value={filters.user} onChange={(user) => change({ user })} />
        <Choice label="Pool" data={pools.data?.map(({ name }) => name)} value={filters.pool} onChange={(pool) => change({ pool })} />
        <Choice
          label="Runs as"
          data={USAGE_CLASSES}
          value={filters.runs_as}
          onChange={(chosen) => change({ runs_as: USAGE_CLASSES.find((each) => each === chosen) })}
        />
        <Button
          className="fit"
          variant={filters.user === me ? "filled" : "default"}
          aria-pressed={filters.user === me}
          onClick={() => change({ user: filters.user === me ? undefined : me })}
        >
          Mine
        </Button>
        <Button className="fit" variant="default" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
          {isOpen ? "Fewer filters" : "More filters"}
        </Button>
        <Columns filters={filters} change={change} />
        <SavedViews filters={filters} />
        <Button component="a" href={csvAddress(filters)} download variant="default" className="fit">
          Download CSV
        </Button>
      </div>
      {isOpen && <MoreFilters filters={filters} change={change} organization={organization} />}
    </div>
  );
}

function MoreFilters({
  filters,
  change,
  organization,
}: {
  filters: Filters;
  change: Change;
  organization: string | undefined;
}) {
  const classes = useQuery({ ...priorityClassesQuery(organization ?? ""), enabled: organization !== undefined });
  const clusters = useQuery(clustersQuery);
  return (
    <div className="filters">
      <Choice
        label="Class"
        data={classes.data?.map(({ name }) => name)}
        value={filters.class}
        onChange={(chosen) => change({ class: chosen })}
      />
      <Choice
        label="Type"
        data={JOB_TYPES}
        value={filters.type}
        onChange={(chosen) => change({ type: JOB_TYPES.find((each) => each === chosen) })}
      />
      <Choice
        label="Cluster"
        data={clusters.data?.map(({ name }) => name)}
        value={filters.cluster}
        onChange={(cluster) => change({ cluster })}
      />
      <Moment label="Submitted from" value={filters.since} onChange={(since) => change({ since })} />
      <Moment label="Submitted before" value={filters.until} onChange={(until) => change({ until })} />
      <Moment label="Ended from" value={filters.ended_since} onChange={(at) => change({ ended_since: at })} />
      <Moment label="Ended before" value={filters.ended_until} onChange={(at) => change({ ended_until: at })} />
      <p className="small faint fit">Your time, {zoneName(new Date())}</p>
    </div>
  );
}

function Choice({
  label,
  data,
  value,
  onChange,
}: {
  label: string;
  data: readonly string[] | undefined;
  value: string | undefined;
  onChange: (value: string | undefined) => void;
}) {
  // A name in the address stays visible also where the list does not have it.
  const names = value === undefined || data?.includes(value) ? [...(data ?? [])] : [value, ...(data ?? [])];
  return (
    <Select
      label={label}
      placeholder="any"
      clearable
      clearButtonProps={{ "aria-label": `Any ${label.toLowerCase()}` }}
      data={names}
      value={value ?? null}
      onChange={(chosen) => onChange(chosen ?? undefined)}
    />
  );
}

function Moment({
  label,
  value,
  onChange,
}: {
  label: string;
  value: string | undefined;
  onChange: (value: string | undefined) => void;
}) {
  return (
    <TextInput
      type="datetime-local"
      label={label}
      value={value === undefined ? "" : localOfUtc(value)}
      onChange={(event) => onChange(utcOfLocal(event.currentTarget.value) ?? undefined)}
    />
  );
}

function Columns({ filters, change }: { filters: Filters; change: Change }) {
  const shown = columnsOf(filters);
  return (
    <Popover position="bottom-end" trapFocus withinPortal={false}>
      <Popover.Target>
        <Button className="fit" variant="default">
          Columns
        </Button>
      </Popover.Target>
      <Popover.Dropdown>
        <Checkbox.Group
          label="Columns"
          value={[...shown]}
          onChange={(chosen) =>
            change({ columns: JOB_COLUMNS.filter((column) => chosen.includes(column)).join(",") || undefined })
          }
        >
          <div className="column-choices">
            {JOB_COLUMNS.map((column) => (
              <Checkbox key={column} value={column} label={COLUMN_WORDS[column]} />
            ))}
          </div>
        </Checkbox.Group>
        <Button variant="default" size="xs" mt={10} onClick={() => change({ columns: undefined })}>
          Usual columns
        </Button>
      </Popover.Dropdown>
    </Popover>
  );
}

/** A text filter that asks the server when the typing pauses. */
function TypedFilter({
  label,
  value,
  onChange,
  isSearch = false,
}: {
  label: string;
  value: string | undefined;
  onChange: (value: string | undefined) => void;
  isSearch?: boolean;
}) {
  const [text, setText] = useState(value ?? "");
  const lastSent = useRef(value);
  useEffect(() => {
    // The address changed from outside (a cleared filter, the back button): show that.
    if (value === lastSent.current) return;
    lastSent.current = value;
    setText(value ?? "");
  }, [value]);
  const send = useDebouncedCallback((typed: string) => {
    lastSent.current = typed.trim() || undefined;
    onChange(lastSent.current);
  }, TYPING_MS);
  return (
    <TextInput
      label={label}
      placeholder={isSearch ? "press / to search" : "any"}
      {...(isSearch ? { "data-search": true } : {})}
      value={text}
      onChange={(event) => {
        setText(event.currentTarget.value);
        send(event.currentTarget.value);
      }}
    />
  );
}
