import { Button } from "@mantine/core";
import type { InfiniteData, UseInfiniteQueryResult } from "@tanstack/react-query";
import type { ReactNode } from "react";

import { Card } from "./Card";
import { CliLine } from "./CliLine";
import { Lines, QueryView } from "./states";

/** A list that is read page by page, newest first: its rows, what stands there without any, and the older ones. */
export function PagedCard<T>({
  query,
  label,
  lines,
  empty,
  command,
  children,
}: {
  query: UseInfiniteQueryResult<InfiniteData<{ items: T[] }>>;
  /** What is loaded, for those who listen: "decisions". */
  label: string;
  /** Grey lines while it loads. */
  lines: number;
  empty: ReactNode;
  /** The command that gives the same. */
  command: string;
  children: (items: T[]) => ReactNode;
}) {
  return (
    <>
      <Card>
        <QueryView query={query} loading={<Lines count={lines} label={`Loading ${label}`} />}>
          {({ pages }) => {
            const items = pages.flatMap((page) => page.items);
            if (items.length === 0) return empty;
            return (
              <>
                {children(items)}
                {query.hasNextPage && (
                  <Button
                    variant="default"
                    mt={12}
                    loading={query.isFetchingNextPage}
                    onClick={() => void query.fetchNextPage()}
                  >
                    Earlier ones
                  </Button>
                )}
              </>
            );
          }}
        </QueryView>
      </Card>
      <p className="sub" style={{ marginTop: 14 }}>
        <CliLine command={command} />
      </p>
    </>
  );
}
