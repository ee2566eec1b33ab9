import { Button } from "@mantine/core";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useState } from "react";

import type { Job } from "../api/types";
import { may } from "../session/access";
import { useSession } from "../session/useSession";
import { Card } from "../ui/Card";
import { CliLine } from "../ui/CliLine";
import { Page } from "../ui/Page";
import { Empty, Lines, QueryView } from "../ui/states";
import { formatCount } from "../ui/units";
import { ArrayCard } from "./ArrayCard";
import { BulkActions } from "./BulkActions";
import { JobFilters } from "./JobFilters";
import { JobList } from "./JobTable";
import { apiFilter, columnsOf, listCommand, NEWEST_FIRST, type JobSort } from "./search";
import { useJobRows } from "./useJobRows";

const ORDER_WORDS: Partial<Record<JobSort, string>> = { [NEWEST_FIRST]: "newest first", submitted_at: "oldest first" };

function useFilters() {
  const filters = useSearch({ from: "/shell/jobs" });
  const navigate = useNavigate({ from: "/jobs" });
  const change = (changes: Partial<typeof filters>) =>
    void navigate({ search: (before) => ({ ...before, ...changes }), replace: true });
  return { filters, change, navigate };
}

export function JobsPage() {
  const session = useSession();
  const { filters, change, navigate } = useFilters();
  const { sort = NEWEST_FIRST } = filters;
  const wanted = apiFilter(filters);
  const { query: jobs, onView } = useJobRows({ ...wanted, sort });
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const mayChange = may(session, "submit_jobs") || may(session, "manage_jobs");
  const isFiltered = Object.keys(wanted).length > 0;
  return (
    <Page
      title="Jobs"
      lead="The list updates by itself. A column's head sorts all jobs by it."
      actions={
        may(session, "submit_jobs") && (
          <Button component={Link} to="/submit">
            Submit a job
          </Button>
        )
      }
    >
      <JobFilters
        filters={filters}
        change={change}
        me={session.user.username}
        organization={filters.scope?.split("/")[0] ?? session.user.organization?.slug}
      />
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
        {({ parts, next }) => {
          const rows = parts.flatMap(({ items }) => items);
          const shown = shownOf(chosen, rows);
          return rows.length === 0 ? (
            <Card>
              <Empty
                cli={listCommand(filters)}
                action={
                  isFiltered ? (
                    <Button
                      variant="default"
                      onClick={() =>
                        void navigate({
                          search: { scope: undefined, sort: filters.sort, columns: filters.columns },
                          replace: true,
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
                {mayChange && <BulkActions chosen={[...shown]} filter={wanted} onDone={() => setChosen(new Set())} />}
                <JobList
                  key={JSON.stringify([wanted, sort])}
                  jobs={rows}
                  caption={`Jobs, ${ORDER_WORDS[sort] ?? "sorted"}`}
                  columns={columnsOf(filters)}
                  sort={sort}
                  {...(mayChange ? { chosen: shown, onChoose: setChosen } : {})}
                  onSort={(next) => change({ sort: next === NEWEST_FIRST ? undefined : next })}
                  hasMore={next !== null}
                  onView={onView}
                />
                <p className="small faint more">
                  {next === null
                    ? `${formatCount(rows.length)} ${rows.length === 1 ? "job" : "jobs"}`
                    : `The first ${formatCount(rows.length)} jobs are loaded. More follow as you scroll.`}
                </p>
              </Card>
              <p className="more">
                <CliLine command={listCommand(filters)} />
              </p>
            </>
          );
        }}
      </QueryView>
    </Page>
  );
}

/** The chosen jobs that the list still has: nobody changes a job that has left it. */
function shownOf(chosen: ReadonlySet<string>, jobs: readonly Job[]): ReadonlySet<string> {
  return new Set(chosen.size === 0 ? [] : jobs.flatMap(({ id }) => (chosen.has(id) ? [id] : [])));
}
