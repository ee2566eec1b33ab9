import { Button } from "@mantine/core";
import { useState } from "react";

import type { RateCard } from "../api/types";
import { Card } from "../ui/Card";
import { CliLine } from "../ui/CliLine";
import { DataTable } from "../ui/DataTable";
import { MODE_WORDS, stateOf, termsText } from "./amounts";
import { Correction, RuleActions } from "./RuleActions";
import type { TermsDraft } from "./TermsDialog";
import { formatInZone } from "./zone";

/** The current and scheduled terms of pools, and on demand the past ones. */
export function TermsTable({ card, nowMs, onChange }: { card: RateCard; nowMs: number; onChange: (draft: TermsDraft) => void }) {
  const [showsPast, setShowsPast] = useState(false);
  const past = card.terms.filter((terms) => stateOf(terms, nowMs) === "past").length;
  const rows = showsPast ? card.terms : card.terms.filter((terms) => stateOf(terms, nowMs) !== "past");
  const day = (iso: string) => formatInZone(iso, card.time_zone);
  return (
    <Card label="Terms of pools" tabIndex={0}>
      <div className="spread">
        <h2>Terms of pools</h2>
        <span className="inline end">
          {past > 0 && (
            <Button variant="default" size="xs" onClick={() => setShowsPast(!showsPast)}>
              {showsPast ? "Hide past terms" : `Show past terms (${past})`}
            </Button>
          )}
          {card.can_edit && (
            <Button variant="default" size="xs" onClick={() => onChange({})}>
              Set terms
            </Button>
          )}
        </span>
      </div>
      <p className="sub">
        A pool without terms is pay-per-use: all multipliers are 1, and use is billed by the second. A commitment bills the
        guarantee, used or not. Showback reports costs and bills nothing.
      </p>
      {rows.length > 0 && (
        <DataTable
          label="Terms"
          rows={rows}
          rowKey={(terms) => terms.id}
          rowClass={(terms) => (stateOf(terms, nowMs) === "past" ? "dim" : undefined)}
          columns={[
            {
              header: "Pool",
              isHeading: true,
              title: (terms) => terms.pool,
              cell: (terms) => (
                <>
                  {terms.pool} <span className="dim">{MODE_WORDS[terms.mode]}</span>
                  <div className="only-phone small faint">
                    {stateOf(terms, nowMs)} from {day(terms.start)}
                  </div>
                </>
              ),
            },
            { header: "Multipliers and minimum", only: "wide", cell: (terms) => termsText(terms) || "–" },
            { header: "From", only: "wide", cell: (terms) => day(terms.start) },
            { header: "Until", only: "wide", cell: (terms) => (terms.end === null ? "further notice" : day(terms.end)) },
            {
              header: "State",
              only: "wide",
              cell: (terms) => (
                <>
                  {stateOf(terms, nowMs)}
                  {terms.is_correction && <Correction rule={terms} words="set after the fact" />}
                </>
              ),
            },
            card.can_edit && {
              header: <span className="visually-hidden">Actions</span>,
              isRight: true,
              cell: (terms) => (
                <RuleActions
                  card={card}
                  nowMs={nowMs}
                  onChange={() => onChange({ pool: terms.pool })}
                  rule={{
                    ...terms,
                    kind: "terms",
                    name: `the terms of ${terms.pool}`,
                    ending: "The pool is pay-per-use then, at its prices. To change the terms, go back and choose Change.",
                    cancelling:
                      `The terms (${MODE_WORDS[terms.mode]}) from ${day(terms.start)} will not apply. ` +
                      "Terms that would end there continue.",
                  }}
                />
              ),
            },
          ]}
        />
      )}
      <CliLine command={`tidegate prices terms set POOL commitment --from 2027-01-01 --organization ${card.organization}`} />
    </Card>
  );
}
