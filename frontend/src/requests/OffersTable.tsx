import { Button, Radio } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";

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
  horizonS,
  isBusy,
  chosen,
  onChoose,
}: {
  request: ChangeRequestDetail;
  offers: ComparedOffer[];
  horizonS: number;
  isBusy: boolean;
  chosen: string | null;
  onChoose: (offer: ComparedOffer, looked: Looked | null) => void;
}) {
  const termsOf = ({ amountMgpu, gives }: ComparedOffer) => ({
    amount: amountMgpu,
    until: request.until,
    sources: asSources(gives),
    horizon_s: horizonS,
  });
  const compare = useMutation({
    // One after the other: the portal computes one look-ahead at a time.
    mutationFn: async () => {
      // By the terms, which change with the quotas: an old preview is never shown for new terms.
      const found: Record<string, Looked> = {};
      for (const body of offers.map(termsOf)) {
        const { data, etag } = await unwrapTagged(
          client.POST("/api/v1/requests/{request_id}/preview", {
            params: { path: { request_id: request.id } },
            body,
          }),
        );
        found[JSON.stringify(body)] = { preview: data, etag };
      }
      return found;
    },
  });
  const rows = offers.map((offer) => ({ offer, looked: compare.data?.[JSON.stringify(termsOf(offer))] ?? null }));
  const sums = ({ looked }: (typeof rows)[number]) =>
    looked === null || looked.preview.refusal !== "" ? null : previewSums(looked.preview);
  return (
    <Card label="Compare offers">
      <div className="spread">
        <h2>Compare offers</h2>
        <Button
          size="xs"
          variant="default"
          loading={compare.isPending}
          disabled={isBusy}
          onClick={() => compare.mutate()}
        >
          {compare.data === undefined ? "Compare" : "Compare again"}
        </Button>
      </div>
      {compare.error && (
        <p className="bad-text" role="alert">
          {compare.error.message}
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
                description={looked?.preview.refusal}
                disabled={isBusy}
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
              return found === null ? "–" : atRiskWords(found) || "none";
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
