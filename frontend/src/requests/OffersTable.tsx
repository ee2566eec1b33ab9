import { Button, Radio } from "@mantine/core";
import { useQueries, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { client, unwrapTagged } from "../api/client";
import type { ChangeRequestDetail } from "../api/types";
import { lastPart } from "../jobs/words";
import type { Looked } from "../planned/PlannedChangePage";
import { atRiskWords, previewSums } from "../planned/words";
import { Card } from "../ui/Card";
import { DataTable } from "../ui/DataTable";
import { formatCost, formatDifference, formatGpus } from "../ui/units";
import { asSources, type ComparedOffer } from "./words";

/** What the request as asked and smaller counter-offers would do, side by side. A chosen one fills the form below. */
export function OffersTable({
  request,
  offers,
  etag,
  horizonS,
  chosen,
  onChoose,
}: {
  request: ChangeRequestDetail;
  offers: ComparedOffer[];
  etag: string;
  horizonS: number;
  chosen: string | null;
  onChoose: (offer: ComparedOffer, looked: Looked | null) => void;
}) {
  const [isAsked, setAsked] = useState(false);
  const queryClient = useQueryClient();
  const previews = useQueries({
    queries: offers.map(({ key, amountMgpu, gives }) => ({
      queryKey: ["requests", "offer", request.id, key, amountMgpu, etag, horizonS],
      enabled: isAsked,
      staleTime: Infinity,
      retry: false,
      queryFn: ({ signal }: { signal: AbortSignal }) =>
        unwrapTagged(
          client.POST("/api/v1/requests/{request_id}/preview", {
            params: { path: { request_id: request.id } },
            body: { amount: amountMgpu, until: request.until, sources: asSources(gives), horizon_s: horizonS },
            signal,
          }),
        ).then(({ data, etag: state }): Looked => ({ preview: data, etag: state })),
    })),
  });
  const failed = previews.find(({ error }) => error !== null)?.error;
  const rows = offers.map((offer, place) => ({ offer, looked: previews[place]?.data ?? null }));
  const sums = ({ looked }: (typeof rows)[number]) =>
    looked === null || looked.preview.refusal !== "" ? null : previewSums(looked.preview);
  return (
    <Card label="Compare offers">
      <div className="spread">
        <h2>Compare offers</h2>
        <Button
          size="xs"
          variant="default"
          loading={previews.some(({ isFetching }) => isFetching)}
          onClick={() => {
            setAsked(true);
            if (isAsked) void queryClient.invalidateQueries({ queryKey: ["requests", "offer", request.id] });
          }}
        >
          {isAsked ? "Compare again" : "Compare"}
        </Button>
      </div>
      {failed && (
        <p className="bad-text" role="alert">
          {failed.message}
        </p>
      )}
      <DataTable
        label="Compared offers"
        rows={rows}
        rowKey={({ offer }) => offer.key}
        columns={[
          {
            header: "Offer",
            isHeading: true,
            cell: ({ offer, looked }) => (
              <Radio
                name={`offer-${request.id}`}
                label={`+${formatGpus(offer.amountMgpu)} ${offer.words}`}
                checked={chosen === offer.key}
                onChange={() => onChoose(offer, looked)}
              />
            ),
          },
          {
            header: "Sources",
            cell: ({ offer }) =>
              [
                ...asSources(offer.gives).map(({ node, amount_mgpu }) => `${lastPart(node)} ${formatGpus(amount_mgpu)}`),
                ...(offer.reserveMgpu > 0 ? [`reserve ${formatGpus(offer.reserveMgpu)}`] : []),
              ].join(", "),
          },
          { header: "Start sooner", isRight: true, cell: (row) => sums(row)?.sooner ?? "–" },
          { header: "Preempted", isRight: true, cell: (row) => sums(row)?.reclaimed ?? "–" },
          {
            header: "Work at risk",
            isRight: true,
            only: "wide",
            cell: (row) => {
              const found = sums(row);
              return found === null ? (row.looked?.preview.refusal ?? "–") : atRiskWords(found);
            },
          },
          {
            header: "Cost",
            isRight: true,
            only: "wide",
            cell: (row) => {
              const { costBeforeNano: before = null, costAfterNano: after = null } = sums(row) ?? {};
              const currency = row.looked?.preview.currency;
              return before === null || after === null
                ? "–"
                : formatDifference(before, after, (nano) => formatCost(nano, currency ?? null));
            },
          },
        ]}
      />
    </Card>
  );
}
