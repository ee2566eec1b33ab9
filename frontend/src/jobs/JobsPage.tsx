import { Button } from "@mantine/core";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useState } from "react";

import { jobsPageQuery } from "../api/queries";
import { nextCursor } from "../api/client";
import type { Job } from "../api/types";
import { may } from "../session/access";
import { useSession } from "../session/useSession";
import { Card } from "../ui/Card";
import { CliLine } from "../ui/CliLine";
import { Page } from "../ui/Page";
import { Empty, Lines, QueryView } from "../ui/states";
import { ArrayCard } from "./ArrayCard";
import { BulkActions } from "./BulkActions";
import { JobFilters } from "./JobFilters";
import { JobTable } from "./JobTable";
import { apiFilter, columnsOf, listCommand, NEWEST_FIRST, type JobSort } from "./search";

const ORDER_WORDS: Partial<Record<JobSort, string>> = { [NEWEST_FIRST]: "newest first", submitted_at: "oldest first" };

function useFilters() {
  const filters = useSearch({ from: "/shell/jobs" });
  const navigate = useNavigate({ from: "/jobs" });
  /** A changed filter or order starts again at the first page. */
  const change = (changes: Partial<typeof filters>) =>
    void navigate({ search: (before) => ({ ...before, cursor: undefined, ...changes }), replace: true });
  return { filters, change, navigate };
}

export function JobsPage() {
  const session = useSession();
  const { filters, change, navigate } = useFilters();
  const { cursor, sort = NEWEST_FIRST } = filters;
  const wanted = apiFilter(filters);
  const jobs = useQuery({
    ...jobsPageQuery({ ...wanted, sort }, cursor),
    placeholderData: keepPreviousData,
  });
  const [chosen, setChosen] = useState<readonly string[]>([]);
  const mayChange = may(session, "submit_jobs") || may(session, "manage_jobs");
  const [newer, setNewer] = useState<(string | undefined)[]>([]);
  const go = (to: string | undefined) =>
    void navigate({ search: (before) => ({ ...before, cursor: to }) });
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
                {mayChange && <BulkActions chosen={shownOf(chosen, page.items)} filter={wanted} onDone={() => setChosen([])} />}
                <JobTable
                  jobs={page.items}
                  caption={`Jobs, ${ORDER_WORDS[sort] ?? "sorted"}`}
                  columns={columnsOf(filters)}
                  sort={sort}
                  {...(mayChange ? { chosen: shownOf(chosen, page.items), onChoose: setChosen } : {})}
                  onSort={(next) => change({ sort: next === NEWEST_FIRST ? undefined : next })}
                />
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
                        First page
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
                          Previous
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
                      Next
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

/** The chosen jobs that the page still has: nobody changes a job that is out of sight. */
function shownOf(chosen: readonly string[], jobs: readonly Job[]): readonly string[] {
  return chosen.filter((id) => jobs.some((job) => job.id === id));
}
