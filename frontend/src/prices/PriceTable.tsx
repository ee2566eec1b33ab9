import { Button, TextInput } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { client, unwrap } from "../api/client";
import type { RateCard, RateLine } from "../api/types";
import { Card } from "../ui/Card";
import { Confirm } from "../ui/Confirm";
import { DataTable } from "../ui/DataTable";
import { Time } from "../ui/Time";
import { toastDone, toastError } from "../ui/toast";
import { formatPrice, stateOf } from "./amounts";
import type { PriceDraft } from "./PriceDialog";
import { formatInZone, startOfDay } from "./zone";

/** The current and scheduled prices, and on demand the past ones, with what can be done to each. */
export function PriceTable({
  card,
  nowMs,
  onChange,
}: {
  card: RateCard;
  nowMs: number;
  onChange: (draft: PriceDraft) => void;
}) {
  const [showsPast, setShowsPast] = useState(false);
  const [ending, setEnding] = useState<RateLine | null>(null);
  const [cancelling, setCancelling] = useState<RateLine | null>(null);
  const past = card.lines.filter((line) => stateOf(line, nowMs) === "past").length;
  const rows = showsPast ? card.lines : card.lines.filter((line) => stateOf(line, nowMs) !== "past");
  const day = (iso: string) => formatInZone(iso, card.time_zone);
  return (
    <Card label="List of prices" tabIndex={0}>
      <div className="spread">
        <h2>Current and scheduled prices</h2>
        {past > 0 && (
          <Button variant="default" size="xs" onClick={() => setShowsPast(!showsPast)}>
            {showsPast ? "Hide past prices" : `Show past prices (${past})`}
          </Button>
        )}
      </div>
      <DataTable
        label="Prices"
        rows={rows}
        rowKey={(line) => line.id}
        rowClass={(line) => (stateOf(line, nowMs) === "past" ? "dim" : undefined)}
        columns={[
          {
            header: "Pool",
            isHeading: true,
            title: (line) => line.pool,
            cell: (line) => (
              <>
                {line.pool} <span className="dim">{line.usage_class}</span>
                <div className="only-phone small faint">
                  {stateOf(line, nowMs)} from {day(line.start)}
                </div>
              </>
            ),
          },
          {
            header: `${card.currency} per hour`,
            isRight: true,
            hint: "Per GPU-hour; per core-hour in a pool of cores",
            cell: (line) => formatPrice(line.price_nano, card.currency),
          },
          { header: "From", only: "wide", cell: (line) => day(line.start) },
          { header: "Until", only: "wide", cell: (line) => (line.end === null ? "further notice" : day(line.end)) },
          {
            header: "State",
            only: "wide",
            cell: (line) => (
              <>
                {stateOf(line, nowMs)}
                {line.is_correction && (
                  <div className="small faint">
                    priced after the fact{line.added_at && <>, <Time at={line.added_at} show="exact" /></>}
                    {line.added_by && <> by {line.added_by}</>}
                  </div>
                )}
              </>
            ),
          },
          card.can_edit && {
            header: <span className="visually-hidden">Actions</span>,
            isRight: true,
            cell: (line) => (
              <Actions line={line} nowMs={nowMs} onChange={onChange} onEnd={setEnding} onCancel={setCancelling} />
            ),
          },
        ]}
      />
      <EndDialog card={card} line={ending} onClose={() => setEnding(null)} />
      <CancelDialog card={card} line={cancelling} onClose={() => setCancelling(null)} />
    </Card>
  );
}

function Actions({
  line,
  nowMs,
  onChange,
  onEnd,
  onCancel,
}: {
  line: RateLine;
  nowMs: number;
  onChange: (draft: PriceDraft) => void;
  onEnd: (line: RateLine) => void;
  onCancel: (line: RateLine) => void;
}) {
  const name = `${line.pool} ${line.usage_class}`;
  const state = stateOf(line, nowMs);
  if (state === "past") return null;
  if (state === "scheduled") {
    return (
      <Button variant="default" size="xs" aria-label={`Cancel the scheduled price of ${name}`} onClick={() => onCancel(line)}>
        Cancel
      </Button>
    );
  }
  return (
    <span className="inline end">
      <Button variant="default" size="xs" aria-label={`Change the price of ${name}`} onClick={() => onChange(line)}>
        Change
      </Button>
      <Button variant="default" size="xs" aria-label={`End the price of ${name}`} onClick={() => onEnd(line)}>
        End
      </Button>
    </span>
  );
}

function useDone(message: string, onClose: () => void) {
  const queryClient = useQueryClient();
  return {
    onSuccess: () => toastDone(message),
    onError: toastError,
    onSettled: () => {
      onClose();
      return queryClient.invalidateQueries({ queryKey: ["reports"] });
    },
  };
}

function EndDialog({ card, line, onClose }: { card: RateCard; line: RateLine | null; onClose: () => void }) {
  const [day, setDay] = useState("");
  const end = useMutation({
    mutationFn: ({ id }: RateLine) =>
      unwrap(
        client.PATCH("/api/v1/rate-cards/{card_id}/lines/{line_id}", {
          params: { path: { card_id: card.id, line_id: id } },
          body: { end: day === "" ? null : startOfDay(day, card.time_zone) },
        }),
      ),
    ...useDone("The end of the price is stored.", onClose),
  });
  return (
    <Confirm
      title={line ? `End the price of ${line.pool} ${line.usage_class}` : ""}
      isOpen={line !== null}
      isBusy={end.isPending}
      confirmLabel="End the price"
      isDangerous
      onConfirm={() => line && end.mutate(line)}
      onClose={onClose}
    >
      <p>Usage without a price costs nothing. To change the price, go back and choose Change.</p>
      <TextInput
        type="date"
        label="Ends on"
        description={`Midnight in ${card.time_zone}. Empty: now.`}
        value={day}
        onChange={(event) => setDay(event.currentTarget.value)}
      />
    </Confirm>
  );
}

function CancelDialog({ card, line, onClose }: { card: RateCard; line: RateLine | null; onClose: () => void }) {
  const cancel = useMutation({
    mutationFn: ({ id }: RateLine) =>
      unwrap(
        client.DELETE("/api/v1/rate-cards/{card_id}/lines/{line_id}", {
          params: { path: { card_id: card.id, line_id: id } },
        }),
      ),
    ...useDone("The scheduled price is cancelled.", onClose),
  });
  return (
    <Confirm
      title={line ? `Cancel the scheduled price of ${line.pool} ${line.usage_class}` : ""}
      isOpen={line !== null}
      isBusy={cancel.isPending}
      confirmLabel="Cancel the price"
      isDangerous
      onConfirm={() => line && cancel.mutate(line)}
      onClose={onClose}
    >
      {line && (
        <p>
          {formatPrice(line.price_nano, card.currency)} from {formatInZone(line.start, card.time_zone)} will not apply. A price
          that would end there continues.
        </p>
      )}
    </Confirm>
  );
}
