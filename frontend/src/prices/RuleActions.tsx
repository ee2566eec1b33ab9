import { Button, TextInput } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import type { RateCard, RateLine } from "../api/types";
import { Confirm } from "../ui/Confirm";
import { Time } from "../ui/Time";
import { toastDone, toastError } from "../ui/toast";
import { stateOf } from "./amounts";
import { cancelRule, endRule, type RuleKind } from "./queries";
import { startOfDay } from "./zone";

/** A price or terms, with its name ("the price of h100 borrowed") and what its end and its cancellation mean. */
interface Rule extends Pick<RateLine, "id" | "start" | "end"> {
  kind: RuleKind;
  name: string;
  ending: string;
  cancelling: string;
}

/** What can be done to a price or to terms: change and end a current one, cancel a scheduled one. */
export function RuleActions({ card, rule, nowMs, onChange }: { card: RateCard; rule: Rule; nowMs: number; onChange: () => void }) {
  const [asks, setAsks] = useState(false);
  const state = stateOf(rule, nowMs);
  if (state === "past") return null;
  if (state === "scheduled") {
    return (
      <>
        <Button
          variant="default"
          size="xs"
          aria-label={`Cancel ${rule.name.replace("the ", "the scheduled ")}`}
          onClick={() => setAsks(true)}
        >
          Cancel
        </Button>
        <CancelDialog card={card} rule={rule} isOpen={asks} onClose={() => setAsks(false)} />
      </>
    );
  }
  return (
    <span className="inline end">
      <Button variant="default" size="xs" aria-label={`Change ${rule.name}`} onClick={onChange}>
        Change
      </Button>
      <Button variant="default" size="xs" aria-label={`End ${rule.name}`} onClick={() => setAsks(true)}>
        End
      </Button>
      <EndDialog card={card} rule={rule} isOpen={asks} onClose={() => setAsks(false)} />
    </span>
  );
}

/** Who added a rule after it had started to apply, and when. */
export function Correction({ rule, words }: { rule: Pick<RateLine, "added_at" | "added_by">; words: string }) {
  return (
    <div className="small faint">
      {words}
      {rule.added_at && <>, <Time at={rule.added_at} show="exact" /></>}
      {rule.added_by && <> by {rule.added_by}</>}
    </div>
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

interface Dialog {
  card: RateCard;
  rule: Rule;
  isOpen: boolean;
  onClose: () => void;
}

function EndDialog({ card, rule, isOpen, onClose }: Dialog) {
  const [day, setDay] = useState("");
  const end = useMutation({
    mutationFn: () => endRule(rule.kind, card.id, rule.id, day === "" ? null : startOfDay(day, card.time_zone)),
    ...useDone(`The end of the ${rule.kind} is stored.`, onClose),
  });
  return (
    <Confirm
      title={`End ${rule.name}`}
      isOpen={isOpen}
      isBusy={end.isPending}
      confirmLabel={`End the ${rule.kind}`}
      isDangerous
      onConfirm={() => end.mutate()}
      onClose={onClose}
    >
      <p>{rule.ending}</p>
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

function CancelDialog({ card, rule, isOpen, onClose }: Dialog) {
  const cancel = useMutation({
    mutationFn: () => cancelRule(rule.kind, card.id, rule.id),
    ...useDone(rule.kind === "price" ? "The scheduled price is cancelled." : "The scheduled terms are cancelled.", onClose),
  });
  return (
    <Confirm
      title={`Cancel ${rule.name.replace("the ", "the scheduled ")}`}
      isOpen={isOpen}
      isBusy={cancel.isPending}
      confirmLabel={`Cancel the ${rule.kind}`}
      isDangerous
      onConfirm={() => cancel.mutate()}
      onClose={onClose}
    >
      <p>{rule.cancelling}</p>
    </Confirm>
  );
}
