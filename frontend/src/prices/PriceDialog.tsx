import { Button, Modal, Select, TextInput } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { ApiError, client, unwrap } from "../api/client";
import { poolsQuery } from "../api/queries";
import type { RateCard, RateLine } from "../api/types";
import { toastDone } from "../ui/toast";
import { deviceTime } from "../ui/units";
import { formatPrice, parsePrice, USAGE_CLASSES, type PricedClass } from "./amounts";
import { formatInZone, startOfDay } from "./zone";

/** What the dialog starts with: the line that is to be replaced, or nothing. */
export type PriceDraft = Partial<Pick<RateLine, "pool" | "usage_class">>;

/** Sets a price from now on or from a day on; the price that applies then ends there. */
export function PriceDialog({ card, draft, onClose }: { card: RateCard; draft: PriceDraft | null; onClose: () => void }) {
  return (
    <Modal
      opened={draft !== null}
      onClose={onClose}
      title="Set a price"
      size="lg"
      closeButtonProps={{ "aria-label": "Close" }}
    >
      {draft !== null && <PriceForm card={card} draft={draft} onClose={onClose} />}
    </Modal>
  );
}

function PriceForm({ card, draft, onClose }: { card: RateCard; draft: PriceDraft; onClose: () => void }) {
  const queryClient = useQueryClient();
  const pools = useQuery(poolsQuery);
  const [pool, setPool] = useState(draft.pool ?? null);
  const [usageClass, setUsageClass] = useState<PricedClass>(draft.usage_class ?? "guaranteed");
  const [price, setPrice] = useState("");
  const [day, setDay] = useState("");
  const [endDay, setEndDay] = useState("");
  const nano = parsePrice(price);
  const start = day === "" ? null : startOfDay(day, card.time_zone);
  const end = endDay === "" ? null : startOfDay(endDay, card.time_zone);
  const add = useMutation({
    mutationFn: (body: { pool: string; price_nano: number }) =>
      unwrap(
        client.POST("/api/v1/rate-cards/{card_id}/lines", {
          params: { path: { card_id: card.id } },
          body: { ...body, usage_class: usageClass, start, end, ends_current: true },
        }),
      ),
    onSuccess: (line) => {
      toastDone(
        `${line.pool} ${line.usage_class} costs ${formatPrice(line.price_nano, card.currency)} from ` +
          `${formatInZone(line.start, card.time_zone)}.`,
      );
      onClose();
      return queryClient.invalidateQueries({ queryKey: ["reports"] });
    },
  });
  const refusals = add.error instanceof ApiError ? add.error.fieldErrors : {};
  const device = pools.data?.find((each) => each.name === pool)?.device ?? "gpu";
  return (
    <form
      className="stack"
      onSubmit={(event) => {
        event.preventDefault();
        if (pool !== null && nano !== null) add.mutate({ pool, price_nano: nano });
      }}
    >
      <div className="price-forms">
        <Select
          label="Pool"
          required
          searchable
          allowDeselect={false}
          nothingFoundMessage="No such pool"
          data={[...new Set([...(draft.pool ? [draft.pool] : []), ...(pools.data ?? []).map(({ name }) => name)])]}
          value={pool}
          onChange={setPool}
          error={refusals["pool"]}
        />
        <Select
          label="Usage class"
          allowDeselect={false}
          data={[...USAGE_CLASSES]}
          value={usageClass}
          onChange={(value) => {
            const found = USAGE_CLASSES.find((each) => each === value);
            if (found) setUsageClass(found);
          }}
        />
        <TextInput
          label={`Price in ${card.currency} per ${deviceTime(device, "hours").slice(0, -1)}`}
          required
          inputMode="decimal"
          placeholder="2.10"
          value={price}
          onChange={(event) => setPrice(event.currentTarget.value)}
          error={price !== "" && nano === null ? "Write a number such as 2.10, with at most nine decimals." : refusals["price_nano"]}
        />
        <TextInput
          type="date"
          label="From"
          description={`Midnight in ${card.time_zone}. Empty: from now on.`}
          value={day}
          onChange={(event) => setDay(event.currentTarget.value)}
          error={refusals["start"]}
        />
        <TextInput
          type="date"
          label="Until (not included)"
          description="Empty: until the next scheduled price."
          value={endDay}
          onChange={(event) => setEndDay(event.currentTarget.value)}
          error={refusals["end"]}
        />
      </div>
      {pool !== null && <Effect card={card} pool={pool} usageClass={usageClass} start={start} />}
      {add.error && Object.keys(refusals).length === 0 && (
        <p className="bad-text" role="alert">
          {add.error.message}
        </p>
      )}
      <div className="inline end">
        <Button variant="default" onClick={onClose}>
          Back
        </Button>
        <Button type="submit" loading={add.isPending} disabled={pool === null || nano === null}>
          Set the price
        </Button>
      </div>
    </form>
  );
}

/** What the new price does to the one that applies at its start. */
function Effect({
  card,
  pool,
  usageClass,
  start,
}: {
  card: RateCard;
  pool: string;
  usageClass: PricedClass;
  start: string | null;
}) {
  const [nowMs] = useState(() => Date.now());
  const at = start === null ? nowMs : Date.parse(start);
  const current = card.lines.find(
    (line) =>
      line.pool === pool &&
      line.usage_class === usageClass &&
      Date.parse(line.start) <= at &&
      (line.end === null || Date.parse(line.end) > at),
  );
  const from = start === null ? "now" : formatInZone(start, card.time_zone);
  if (current === undefined) {
    return (
      <p className="sub">
        {at < nowMs
          ? `There was no price on ${from}. The new one is a correction, and reports name it.`
          : `There is no price ${start === null ? "now" : `on ${from}`}, so no other price ends.`}
      </p>
    );
  }
  const price = formatPrice(current.price_nano, card.currency);
  return (
    <p className="sub">
      {at < nowMs
        ? `${price} applied on ${from}. What has applied never changes: choose a day from now on.`
        : `${price} applies until then and ends ${start === null ? "now" : `on ${from}`}.`}
    </p>
  );
}
