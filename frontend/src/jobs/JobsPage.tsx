import { Button, MultiSelect, Select, TextInput } from "@mantine/core";
import { useDebouncedCallback } from "@mantine/hooks";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useEffect, useRef, useState } from "react";

import { jobsPageQuery, poolsQuery } from "../api/queries";
import { nextCursor } from "../api/client";
import { may } from "../session/access";
import { useSession } from "../session/useSession";
import { Card } from "../ui/Card";
import { CliLine } from "../ui/CliLine";
import { Page } from "../ui/Page";
import { Empty, Lines, QueryView } from "../ui/states";
import { ArrayCard } from "./ArrayCard";
import { JobTable } from "./JobTable";
import { JOB_STATES, parseStates, stateWord } from "./words";

const TYPING_MS = 300;

type Filters = ReturnType<typeof useFilters>["filters"];

function useFilters() {
  const filters = useSearch({ from: "/shell/jobs" });
  const navigate = useNavigate({ from: "/jobs" });
  /** A changed filter starts again at the newest job. */
  const change = (changes: Partial<typeof filters>) =>
    void navigate({ search: (before) => ({ ...before, cursor: undefined, ...changes }), replace: true });
  return { filters, change, navigate };
}

export function JobsPage() {
  const session = useSession();
  const { filters, change, navigate } = useFilters();
  const { scope, cursor, state, ...rest } = filters;
  const states = parseStates(state);
  const jobs = useQuery({
    ...jobsPageQuery(
      {
        ...rest,
        ...(states.length > 0 ? { state: states } : {}),
        team: scope,
        sort: "-submitted_at",
      },
      cursor,
    ),
    placeholderData: keepPreviousData,
  });
  const [newer, setNewer] = useState<(string | undefined)[]>([]);
  const go = (to: string | undefined) =>
    void navigate({ search: (before) => ({ ...before, cursor: to }) });
  const isFiltered = scope !== undefined || states.length > 0 || Object.values(rest).some(Boolean);
  return (
    <Page
      title="Jobs"
      lead="Newest first. The list updates by itself."
      actions={
        may(session, "submit_jobs") && (
          <Button component={Link} to="/submit">
            Submit a job
          </Button>
        )
      }
    >
      <FilterBar filters={filters} change={change} me={session.user.username} />
      {filters.array !== undefined && (
        <ArrayCard key={filters.array} id={filters.array} onClear={() => change({ array: undefined })} />
      )}
      <QueryView
        query={jobs}
        loading={
          <Card>
            <Lines count={8} label="Loading jobs" />
          </Card>
        }
      >
        {(page) => {
          const next = nextCursor(page.next);
          return page.items.length === 0 && cursor === undefined ? (
            <Card>
              <Empty
                cli={listCommand(filters)}
                action={
                  isFiltered ? (
                    <Button
                      variant="default"
                      onClick={() =>
                        change({
                          scope: undefined,
                          state: undefined,
                          user: undefined,
                          pool: undefined,
                          q: undefined,
                          array: undefined,
                        })
                      }
                    >
                      Show all jobs
                    </Button>
                  ) : may(session, "submit_jobs") ? (
                    <Button component={Link} to="/submit">
                      Submit the first job
                    </Button>
                  ) : undefined
                }
              >
                {isFiltered ? "No job matches these filters." : "No job has been submitted here yet."}
              </Empty>
            </Card>
          ) : (
            <>
              <Card aria-busy={jobs.isPlaceholderData}>
                <JobTable jobs={page.items} caption="Jobs, newest first" />
              </Card>
              <div className="spread" style={{ marginTop: 14 }}>
                <CliLine command={listCommand(filters)} />
                <div className="inline">
                  {cursor !== undefined && (
                    <>
                      <Button
                        variant="default"
                        size="xs"
                        onClick={() => {
                          setNewer([]);
                          go(undefined);
                        }}
                      >
                        Newest
                      </Button>
                      {newer.length > 0 && (
                        <Button
                          variant="default"
                          size="xs"
                          onClick={() => {
                            setNewer(newer.slice(0, -1));
                            go(newer.at(-1));
                          }}
                        >
                          Newer
                        </Button>
                      )}
                    </>
                  )}
                  {next !== null && (
                    <Button
                      variant="default"
                      size="xs"
                      onClick={() => {
                        setNewer([...newer, cursor]);
                        go(next);
                      }}
                    >
                      Older
                    </Button>
                  )}
                </div>
              </div>
            </>
          );
        }}
      </QueryView>
    </Page>
  );
}

function FilterBar({
  filters,
  change,
  me,
}: {
  filters: Filters;
  change: (changes: Partial<Filters>) => void;
  me: string;
}) {
  const pools = useQuery(poolsQuery);
  const poolNames = pools.data?.map(({ name }) => name) ?? [];
  const states = parseStates(filters.state);
  return (
    <div className="filters" role="search" aria-label="Filter jobs">
      <TypedFilter label="Name or ID" value={filters.q} onChange={(q) => change({ q })} isSearch />
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
      {poolNames.length > 1 && (
        <Select
          label="Pool"
          placeholder="any"
          clearable
          clearButtonProps={{ "aria-label": "Any pool" }}
          data={poolNames}
          value={filters.pool ?? null}
          onChange={(pool) => change({ pool: pool ?? undefined })}
        />
      )}
      <Button
        className="fit"
        variant={filters.user === me ? "filled" : "default"}
        aria-pressed={filters.user === me}
        onClick={() => change({ user: filters.user === me ? undefined : me })}
      >
        Mine
      </Button>
    </div>
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

function listCommand({ scope, state, user, pool, q, array }: Filters): string {
  const options = { team: scope, state, user, pool, name: q, array };
  return [
    "tidegate ls",
    ...Object.entries(options).flatMap(([name, value]) => (value === undefined ? [] : [`--${name} ${value}`])),
  ].join(" ");
}
