import { Button, Modal, Select, TextInput } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { ApiError, client, unwrap } from "../api/client";
import { poolsQuery } from "../api/queries";
import type { RateCard } from "../api/types";
import { toastDone } from "../ui/toast";
import { formatFactor, MODE_WORDS, parseFactor, termsAt, USAGE_CLASSES, type Mode } from "./amounts";
import { formatInZone, startOfDay } from "./zone";

/** What the dialog starts with: the pool whose terms are to be replaced, or nothing. */
export interface TermsDraft {
  pool?: string;
}

const MODES = Object.keys(MODE_WORDS) as Mode[];
const SECONDS_MAX = 86_400;

/** Sets the terms of a pool from now on or from a day on; the terms that apply then end there. */
export function TermsDialog({ card, draft, onClose }: { card: RateCard; draft: TermsDraft | null; onClose: () => void }) {
  return (
    <Modal opened={draft !== null} onClose={onClose} title="Set terms" size="lg" closeButtonProps={{ "aria-label": "Close" }}>
      {draft !== null && <TermsForm card={card} draft={draft} onClose={onClose} />}
    </Modal>
  );
}

function TermsForm({ card, draft, onClose }: { card: RateCard; draft: TermsDraft; onClose: () => void }) {
  const queryClient = useQueryClient();
  const pools = useQuery(poolsQuery);
  const [before] = useState(() => (draft.pool === undefined ? undefined : termsAt(card, draft.pool, Date.now())));
  const [pool, setPool] = useState(draft.pool ?? null);
  const [mode, setMode] = useState<Mode>(before?.mode ?? "pay_per_use");
  const [factors, setFactors] = useState(() => USAGE_CLASSES.map((name) => formatFactor(before?.[`${name}_ppm`] ?? 1_000_000)));
  const [minimum, setMinimum] = useState(String(before?.minimum_s ?? 0));
  const [increment, setIncrement] = useState(String(before?.increment_s ?? 1));
  const [day, setDay] = useState("");
  const [endDay, setEndDay] = useState("");
  const [guaranteed, borrowed, unpaid] = factors.map(parseFactor);
  const [minimumS, incrementS] = [seconds(minimum, 0), seconds(increment, 1)];
  const add = useMutation({
    mutationFn: (body: { pool: string; guaranteed_ppm: number; borrowed_ppm: number; unpaid_ppm: number; minimum_s: number; increment_s: number }) =>
      unwrap(
        client.POST("/api/v1/rate-cards/{card_id}/terms", {
          params: { path: { card_id: card.id } },
          body: {
            ...body,
            mode,
            start: day === "" ? null : startOfDay(day, card.time_zone),
            end: endDay === "" ? null : startOfDay(endDay, card.time_zone),
            ends_current: true,
          },
        }),
      ),
    onSuccess: (terms) => {
      toastDone(`${terms.pool} is ${MODE_WORDS[terms.mode]} from ${formatInZone(terms.start, card.time_zone)}.`);
      onClose();
      return queryClient.invalidateQueries({ queryKey: ["reports"] });
    },
  });
  const refusals = add.error instanceof ApiError ? add.error.fieldErrors : {};
  const isComplete =
    pool !== null && guaranteed != null && borrowed != null && unpaid != null && minimumS !== null && incrementS !== null;
  return (
    <form
      className="stack"
      onSubmit={(event) => {
        event.preventDefault();
        if (isComplete)
          add.mutate({
            pool,
            guaranteed_ppm: guaranteed,
            borrowed_ppm: borrowed,
            unpaid_ppm: unpaid,
            minimum_s: minimumS,
            increment_s: incrementS,
          });
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
          label="Mode"
          allowDeselect={false}
          data={MODES.map((value) => ({ value, label: MODE_WORDS[value] }))}
          value={mode}
          onChange={(value) => setMode(MODES.find((each) => each === value) ?? mode)}
        />
        {USAGE_CLASSES.map((name, place) => (
          <TextInput
            key={name}
            label={`Multiplier of ${name} use`}
            inputMode="decimal"
            value={factors[place] ?? ""}
            onChange={(event) => setFactors(factors.with(place, event.currentTarget.value))}
            error={parseFactor(factors[place] ?? "") === null ? "Write a number such as 1.5, from 0 to 100." : refusals[`${name}_ppm`]}
          />
        ))}
        <TextInput
          label="Minimum per attempt, in seconds"
          inputMode="numeric"
          value={minimum}
          onChange={(event) => setMinimum(event.currentTarget.value)}
          error={minimumS === null ? "Write whole seconds, from 0 to 86400." : refusals["minimum_s"]}
        />
        <TextInput
          label="Billed in steps of seconds"
          inputMode="numeric"
          value={increment}
          onChange={(event) => setIncrement(event.currentTarget.value)}
          error={incrementS === null ? "Write whole seconds, from 1 to 86400." : refusals["increment_s"]}
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
          description="Empty: until the next scheduled terms."
          value={endDay}
          onChange={(event) => setEndDay(event.currentTarget.value)}
          error={refusals["end"]}
        />
      </div>
      <p className="sub">{EFFECTS[mode]} Terms that have applied never change.</p>
      {add.error && Object.keys(refusals).length === 0 && (
        <p className="bad-text" role="alert">
          {add.error.message}
        </p>
      )}
      <div className="inline end">
        <Button variant="default" onClick={onClose}>
          Back
        </Button>
        <Button type="submit" loading={add.isPending} disabled={!isComplete}>
          Set the terms
        </Button>
      </div>
    </form>
  );
}

const EFFECTS: Record<Mode, string> = {
  pay_per_use: "What a team uses is billed.",
  commitment:
    "Each team's guarantee is billed at the price of guaranteed use, used or not. Use inside the guarantee costs no more. " +
    "Borrowed and unpaid use have their own prices.",
  showback: "Reports show what the use would cost. Statements and budgets bill nothing.",
};

function seconds(text: string, least: number): number | null {
  const count = /^\d{1,5}$/.test(text.trim()) ? Number(text) : -1;
  return count >= least && count <= SECONDS_MAX ? count : null;
}
