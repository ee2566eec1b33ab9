import { Button, Textarea, TextInput } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useEffect, useState } from "react";

import { client, unwrapTagged } from "../api/client";
import type { Budget, ChangeRequestDetail } from "../api/types";
import { readAmount, UNITS } from "../budgets/amounts";
import type { Looked } from "../planned/PlannedChangePage";
import { PreviewCard } from "../planned/PreviewCard";
import { Card } from "../ui/Card";
import { CliLine } from "../ui/CliLine";
import { commandLine } from "../ui/command";
import { localOfUtc, utcOfLocal } from "../ui/localTime";
import { toastDone } from "../ui/toast";
import { parseGpus, zoneName } from "../ui/units";
import { OffersTable } from "./OffersTable";
import { SourcesTable } from "./SourcesTable";
import { asSources, comparedOffers, suggestedSources, sumOf, type ComparedOffer, type Gives } from "./words";

const HORIZON_S_DEFAULT = 86_400;
const NOTE_MAX = 500;

type Act = "approve" | "counter" | "reject";
const DONE: Record<Act, string> = {
  approve: "Approved. The change is made.",
  counter: "The counter-offer is sent.",
  reject: "The request is rejected.",
};

/** The form of a decision: sources, terms and their effect. A decision is refused if a quota changed since the last look. */
export function DecideCard({ request, etag }: { request: ChangeRequestDetail; etag: string }) {
  const queryClient = useQueryClient();
  const { supply } = request;
  const isOfQuotas = request.pool !== null;
  const mayCounter = request.kind !== "role" && request.kind !== "loan" && request.kind !== "write";
  const needsSources = request.kind === "guarantee";
  const measure = measureOf(request);
  const asked = request.amount === null ? "" : String(request.amount / (measure === null ? 1000 : UNITS[measure]));
  const askedUntil = request.until === null ? "" : localOfUtc(request.until);
  const [amountText, setAmountText] = useState(asked);
  const [untilText, setUntilText] = useState(askedUntil);
  const [gives, setGives] = useState<Gives>(() =>
    needsSources && supply !== null ? suggestedSources(supply, request.amount ?? 0) : {},
  );
  const [chosen, setChosen] = useState<ComparedOffer["key"] | null>(null);
  // The fields of the sources keep what was typed, so a choice makes new ones.
  const [choices, setChoices] = useState(0);
  const [note, setNote] = useState("");
  const [seen, setSeen] = useState(etag);
  const [looked, setLooked] = useState<Looked | null>(null);
  const [horizonS, setHorizonS] = useState(HORIZON_S_DEFAULT);
  const amount = measure === null ? readGpus(amountText) : readAmount(amountText, measure);
  const isAsAsked = amountText === asked && untilText === askedUntil;
  const until = isAsAsked ? request.until : utcOfLocal(untilText);
  const isReadable = Object.values(gives).every((mgpu) => mgpu !== null);
  const tooMuch = amount !== null && sumOf(gives) > amount;
  const terms = { amount: amount ?? 1, until, sources: needsSources ? asSources(gives) : [] };
  const path = { request_id: request.id };
  const preview = useMutation({
    mutationFn: (horizon: number) =>
      unwrapTagged(
        client.POST("/api/v1/requests/{request_id}/preview", {
          params: { path },
          body: { ...(request.kind === "loan" ? {} : terms), horizon_s: horizon },
        }),
      ),
    onSuccess: ({ data, etag: state }) => {
      setLooked({ preview: data, etag: state });
      setSeen(state);
      decide.reset();
    },
  });
  const decide = useMutation({
    mutationFn: (act: Act) => {
      const params = { path, header: { "If-Match": isOfQuotas ? seen : etag } };
      if (act === "reject") {
        return unwrapTagged(client.POST("/api/v1/requests/{request_id}/reject", { params: { path }, body: { note: note.trim() } }));
      }
      return act === "approve"
        ? unwrapTagged(
            client.POST("/api/v1/requests/{request_id}/approve", { params, body: { sources: terms.sources, note: note.trim() } }),
          )
        : unwrapTagged(client.POST("/api/v1/requests/{request_id}/counter", { params, body: { ...terms, note: note.trim() } }));
    },
    onSuccess: (_, act) => {
      toastDone(DONE[act]);
      void queryClient.invalidateQueries({ queryKey: ["requests"] });
      void queryClient.invalidateQueries({ queryKey: ["quotas"] });
    },
    onError: () => queryClient.invalidateQueries({ queryKey: ["requests", "one", request.id] }),
  });
  const { mutate: look } = preview;
  useEffect(() => {
    if (isOfQuotas) look(HORIZON_S_DEFAULT);
  }, [isOfQuotas, look]);
  const change = <T,>(set: (value: T) => void) => (value: T) => {
    set(value);
    setLooked(null);
    setChosen(null);
  };
  const offers = needsSources && supply !== null ? comparedOffers(supply, request.amount ?? 0) : [];
  const choose = (offer: ComparedOffer, found: Looked | null) => {
    setChosen(offer.key);
    setChoices((count) => count + 1);
    setAmountText(offer.key === "asked" ? asked : String(offer.amountMgpu / 1000));
    setUntilText(askedUntil);
    setGives(offer.gives);
    setLooked(found);
    if (found !== null) setSeen(found.etag);
  };
  const from = terms.sources.map(({ node, amount_mgpu }) => `${node}=${amount_mgpu / 1000}`).join(",");
  return (
    <>
      {needsSources && supply !== null && (
        <SourcesTable
          key={choices}
          request={request}
          supply={supply}
          amountMgpu={amount ?? 0}
          gives={gives}
          onChange={change(setGives)}
        />
      )}
      {isOfQuotas && (
        <PreviewCard
          looked={looked}
          isOld={looked !== null && etag !== looked.etag}
          isBusy={preview.isPending}
          error={preview.error}
          horizonS={horizonS}
          onHorizon={setHorizonS}
          onPreview={() => look(horizonS)}
        />
      )}
      {offers.length > 1 && (
        <OffersTable
          request={request}
          offers={offers}
          horizonS={horizonS}
          isBusy={preview.isPending}
          chosen={chosen}
          onChoose={choose}
        />
      )}
      <Card label="Decision" className="stack">
        <h2>{mayCounter ? "Approve or counter-offer" : "Approve or reject"}</h2>
        {mayCounter && (
          <div className="filters">
            <TextInput
              label={isOfQuotas ? "GPUs" : "Amount"}
              description="As asked, or your offer."
              inputMode="decimal"
              value={amountText}
              onChange={(event) => change(setAmountText)(event.currentTarget.value)}
              error={amount === null ? "A number above 0." : null}
            />
            {isOfQuotas && (
              <TextInput
                type="datetime-local"
                label="Until"
                description={`Your time, ${zoneName(new Date())}. Empty: for good.`}
                value={untilText}
                onChange={(event) => change(setUntilText)(event.currentTarget.value)}
              />
            )}
          </div>
        )}
        {tooMuch && (
          <p className="bad-text" role="alert">
            The sources give more than the amount. Lower one of them.
          </p>
        )}
        <Textarea
          label={`Note to ${request.asked_by}`}
          description="Required to reject."
          autosize
          minRows={1}
          maxLength={NOTE_MAX}
          value={note}
          onChange={(event) => setNote(event.currentTarget.value)}
        />
        {decide.error && (
          <p className="bad-text" role="alert">
            {decide.error.message}
          </p>
        )}
        <div className="inline">
          <Button
            disabled={!isAsAsked || !isReadable || tooMuch}
            loading={decide.isPending && decide.variables === "approve"}
            onClick={() => decide.mutate("approve")}
          >
            Approve {request.amount_text && `+${request.amount_text}`}
          </Button>
          {mayCounter && (
            <Button
              variant="default"
              disabled={isAsAsked || amount === null || !isReadable || tooMuch}
              loading={decide.isPending && decide.variables === "counter"}
              onClick={() => decide.mutate("counter")}
            >
              Counter-offer
            </Button>
          )}
          <Button
            variant="default"
            color="red"
            disabled={note.trim() === ""}
            loading={decide.isPending && decide.variables === "reject"}
            onClick={() => decide.mutate("reject")}
          >
            Reject
          </Button>
        </div>
        <p className="small">
          <CliLine
            command={
              isAsAsked
                ? commandLine(`tidegate requests approve ${request.id.slice(-8)}`, { from })
                : commandLine(`tidegate requests counter ${request.id.slice(-8)}`, { amount: amountText, from, until })
            }
          />
        </p>
      </Card>
    </>
  );
}

/** The measure of the request's budget; null where its amount is one of GPUs. */
function measureOf({ unit }: ChangeRequestDetail): Budget["measure"] | null {
  return unit === "gpu_hours" || unit === "credits" || unit === "money" ? unit : null;
}

/** A typed number of GPUs above 0 in milli-GPU, or null. */
function readGpus(text: string): number | null {
  const mgpu = parseGpus(text);
  return mgpu === 0 ? null : mgpu;
}
