import { Button } from "@mantine/core";

import type { LogMatch } from "../api/types";
import { ErrorCard, Lines } from "../ui/states";
import { DataTable } from "../ui/DataTable";
import { Time } from "../ui/Time";
import { wholeText } from "./LogPane";
import { useLogSearch, type SearchedLog } from "./useLogSearch";

/** Matching lines that are in the page. */
const ROWS_MAX = 200;

/** The matching lines of all ranks. Each leads to its place. */
export function LogMatches({
  source,
  sought,
  isOver,
  onChoose,
}: {
  source: Omit<SearchedLog, "rank">;
  sought: string;
  /** Whether the attempt has ended. */
  isOver: boolean;
  onChoose: (match: LogMatch) => void;
}) {
  const search = useLogSearch({ ...source, rank: undefined }, sought, isOver);
  const { matches } = search;
  return (
    <section className="stack" aria-label="Matches of all ranks">
      <div className="inline">
        <span className="small dim" role="status">
          {`All ranks, ${wholeText(search, -1)}`}
        </span>
        {search.hasMore && !search.isSearching && (
          <Button variant="default" size="compact-xs" onClick={search.searchOn}>
            Search on
          </Button>
        )}
      </div>
      {search.error && <ErrorCard error={search.error} />}
      {search.isSearching && matches.length === 0 && <Lines count={3} label="Searching all ranks" />}
      {matches.length > 0 && (
        <div className="scroll-x">
          <DataTable
            label="Matching lines"
            rows={matches}
            rowKey={({ rank, stream, offset }) => `${rank} ${stream} ${offset}`}
            limit={ROWS_MAX}
            columns={[
              { header: "Rank", isRight: true, cell: ({ rank }) => rank },
              { header: "Stream", cell: ({ stream }) => stream },
              { header: "Time", cell: ({ at }) => (at === null ? "unknown" : <Time at={at} show="exact" />) },
              {
                header: "Line",
                isHeading: true,
                cell: (match) => (
                  <button type="button" className="plain link mono" onClick={() => onChoose(match)}>
                    {match.text}
                  </button>
                ),
              },
            ]}
          />
        </div>
      )}
    </section>
  );
}
