import { Button } from "@mantine/core";
import { useState } from "react";

import type { RateCard } from "../api/types";
import { Card } from "../ui/Card";
import { DataTable } from "../ui/DataTable";
import { formatPrice, stateOf } from "./amounts";
import type { PriceDraft } from "./PriceDialog";
import { Correction, RuleActions } from "./RuleActions";
import { formatInZone } from "./zone";

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
                {line.is_correction && <Correction rule={line} words="priced after the fact" />}
              </>
            ),
          },
          card.can_edit && {
            header: <span className="visually-hidden">Actions</span>,
            isRight: true,
            cell: (line) => (
              <RuleActions
                card={card}
                nowMs={nowMs}
                onChange={() => onChange(line)}
                rule={{
                  ...line,
                  kind: "price",
                  name: `the price of ${line.pool} ${line.usage_class}`,
                  ending: "Usage without a price costs nothing. To change the price, go back and choose Change.",
                  cancelling:
                    `${formatPrice(line.price_nano, card.currency)} from ${day(line.start)} will not apply. ` +
                    "A price that would end there continues.",
                }}
              />
            ),
          },
        ]}
      />
    </Card>
  );
}
