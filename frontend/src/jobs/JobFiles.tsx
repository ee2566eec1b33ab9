import { Button, Select } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";

import { jobFilesQuery } from "../api/queries";
import type { JobDetail } from "../api/types";
import { CliLine } from "../ui/CliLine";
import { DataTable } from "../ui/DataTable";
import { QueryView } from "../ui/states";
import { Time } from "../ui/Time";
import { formatCount, sizeOf } from "../ui/units";

/** The files that an attempt left in its folder, each a download. */
export function JobFiles({ job }: { job: JobDetail }) {
  const search = useSearch({ from: "/shell/jobs/$jobId" });
  const navigate = useNavigate({ from: "/jobs/$jobId" });
  const attempt = search.attempt ?? job.attempt;
  const files = useInfiniteQuery(jobFilesQuery(job.id, attempt));
  const address = (name: string) =>
    `/api/v1/jobs/${job.id}/files/download?${new URLSearchParams({ attempt: String(attempt), name }).toString()}`;
  return (
    <div className="stack">
      {job.attempt > 1 && (
        <Select
          aria-label="Attempt"
          size="xs"
          w={120}
          allowDeselect={false}
          data={Array.from({ length: job.attempt }, (_, i) => String(job.attempt - i)).map((value) => ({ value, label: `attempt ${value}` }))}
          value={String(attempt)}
          onChange={(value) =>
            value && void navigate({ search: (before) => ({ ...before, attempt: Number(value) }), replace: true })
          }
        />
      )}
      <QueryView query={files}>
        {({ pages }) => {
          const items = pages.flatMap((page) => page.items);
          const [first] = pages;
          return (
            <>
              {items.length === 0 ? (
                <p className="dim">The attempt left no files in its folder.</p>
              ) : (
                <div className="scroll-x">
                  <DataTable
                    label="Files"
                    rows={items}
                    rowKey={({ name }) => name}
                    limit={items.length}
                    columns={[
                      {
                        header: "Name",
                        isHeading: true,
                        className: "file-name",
                        cell: ({ name }) => (
                          <a href={address(name)} download>
                            {name}
                          </a>
                        ),
                      },
                      { header: "Size", isRight: true, cell: ({ size_bytes }) => sizeOf(size_bytes) },
                      { header: "Changed", cell: ({ modified_at }) => <Time at={modified_at} show="exact" /> },
                    ]}
                  />
                </div>
              )}
              {first?.is_cut && <p className="small faint">The folder has more files than are listed here.</p>}
              {first !== undefined && first.left_out > 0 && (
                <p className="small faint">
                  Not listed: {formatCount(first.left_out)} links, special files, files of other users or unreadable names.
                </p>
              )}
              {files.hasNextPage && (
                <Button variant="default" loading={files.isFetchingNextPage} onClick={() => void files.fetchNextPage()}>
                  More files
                </Button>
              )}
            </>
          );
        }}
      </QueryView>
      <CliLine command={`tidegate files ${job.id} --attempt ${attempt}`} />
    </div>
  );
}
