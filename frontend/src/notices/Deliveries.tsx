import { Button } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";

import type { Webhook } from "../api/types";
import { Card } from "../ui/Card";
import { DataTable } from "../ui/DataTable";
import { Time } from "../ui/Time";
import { Empty, Lines, QueryView } from "../ui/states";
import { deliveriesQuery, replay, useAct } from "./webhookQueries";
import { STATE_WORDS } from "./words";

/** The messages to a webhook with their outcome. Those that have ended are sent again by a button. */
export function Deliveries({ webhook }: { webhook: Webhook }) {
  const deliveries = useInfiniteQuery({ ...deliveriesQuery(webhook.id), refetchInterval: 5_000 });
  const again = useAct(replay, "The message is on its way again");
  return (
    <Card label={`Messages to ${webhook.name}`} style={{ marginTop: 14 }}>
      <h2>Messages to {webhook.name}</h2>
      <QueryView query={deliveries} loading={<Lines count={4} label="Loading messages" />}>
        {({ pages }) => {
          const items = pages.flatMap((page) => page.items);
          if (items.length === 0) return <Empty>No messages in the last 30 days.</Empty>;
          return (
            <>
              <DataTable
                label={`Messages to ${webhook.name}`}
                rows={items}
                rowKey={(delivery) => delivery.id}
                columns={[
                  {
                    header: "Message",
                    isHeading: true,
                    className: "breaks",
                    cell: (delivery) => (
                      <div className="notice">
                        {delivery.sentence}
                        <div className="small dim">
                          <Time at={delivery.created_at} />
                          {delivery.error !== "" && ` · ${delivery.error}`}
                        </div>
                        {delivery.response_excerpt !== "" && (
                          <div className="small mono dim">{delivery.response_excerpt}</div>
                        )}
                      </div>
                    ),
                  },
                  { header: "State", cell: (delivery) => STATE_WORDS[delivery.state] },
                  { header: "Status", isRight: true, only: "wide", cell: (delivery) => delivery.status_code ?? "–" },
                  {
                    header: "Took",
                    isRight: true,
                    only: "wide",
                    cell: ({ duration_ms }) => (duration_ms === null ? "–" : `${duration_ms} ms`),
                  },
                  { header: "Tries", isRight: true, only: "wide", cell: (delivery) => delivery.attempts },
                  {
                    header: <span className="visually-hidden">Actions</span>,
                    isRight: true,
                    cell: (delivery) =>
                      delivery.ended_at !== null &&
                      webhook.disabled_at === null && (
                        <Button
                          variant="default"
                          size="xs"
                          aria-label={`Send again: ${delivery.sentence}`}
                          onClick={() => again.mutate(delivery.id)}
                        >
                          Send again
                        </Button>
                      ),
                  },
                ]}
              />
              {deliveries.hasNextPage && (
                <Button
                  variant="default"
                  mt={12}
                  loading={deliveries.isFetchingNextPage}
                  onClick={() => void deliveries.fetchNextPage()}
                >
                  Earlier ones
                </Button>
              )}
            </>
          );
        }}
      </QueryView>
    </Card>
  );
}
