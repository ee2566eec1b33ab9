import { Button, SegmentedControl, Textarea, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useRef } from "react";

import { ApiError, client, unwrap } from "../api/client";
import { comparePaths, poolsQuery, quotasQuery } from "../api/queries";
import type { PlannedChange, PlannedEditRequest, Quota } from "../api/types";
import { inTreeOrder } from "../quotas/tree";
import { newIdempotencyKey } from "../submit/draft";
import { Card } from "../ui/Card";
import { CliLine } from "../ui/CliLine";
import { localOfUtc, utcOfLocal } from "../ui/localTime";
import { Page } from "../ui/Page";
import { Empty, Lines, QueryView } from "../ui/states";
import { gpusToDecimal, percentWords, readDuration, zoneName } from "../ui/units";
import { API_FIELDS, readRow, rowsOfDraft, type RowErrors, type TypedFields } from "./draft";
import { DraftTable } from "./DraftTable";
import { plannedChangeQuery } from "./queries";
import "./planned.css";

/** Figures of several quotas are edited as one, and kept as a draft that is then looked at. */
export function DraftPage() {
  const { scope, from } = useSearch({ from: "/shell/quota-changes/new" });
  const quotas = useQuery(quotasQuery(scope ? { subtree: scope } : {}));
  const old = useQuery({ ...plannedChangeQuery(from ?? ""), enabled: from !== undefined });
  return (
    <Page
      title="Change quotas"
      lead="Edit the quotas of one or several nodes. They are saved as a draft, and change nothing until it is applied."
    >
      <QueryView query={quotas} loading={<Loading />}>
        {(all) => {
          if (!all.some((quota) => quota.can_edit.length > 0)) {
            return (
              <Card>
                <Empty action={<Link to="/quotas">See the quotas</Link>}>
                  You may change no quota {scope ? `at or below ${scope}` : "that you can see"}. Its team lead or an
                  administrator above can.
                </Empty>
              </Card>
            );
          }
          if (from === undefined) return <Editor quotas={inTreeOrder(all, comparePaths)} old={null} />;
          return (
            <QueryView query={old} loading={<Loading />}>
              {({ data }) => <Editor key={data.id} quotas={inTreeOrder(all, comparePaths)} old={data} />}
            </QueryView>
          );
        }}
      </QueryView>
    </Page>
  );
}

function Loading() {
  return (
    <Card>
      <Lines count={9} label="Loading quotas" />
    </Card>
  );
}

interface Terms {
  reason: string;
  isTimed: boolean;
  applyAt: string;
  isReverted: boolean;
  revertAfter: string;
}

interface DraftFields extends Terms {
  /** By quota, what is typed in its row. */
  rows: Record<string, TypedFields>;
}

function termsOf(old: PlannedChange | null): Terms {
  const revertAfterS = old?.revert_after_s ?? null;
  return {
    reason: old?.reason ?? "",
    isTimed: old?.apply_at != null,
    applyAt: old?.apply_at == null ? "" : localOfUtc(old.apply_at),
    isReverted: revertAfterS !== null,
    revertAfter: revertAfterS === null ? "" : `${revertAfterS}s`,
  };
}

function readTerms(terms: Terms) {
  const applyAt = terms.isTimed ? utcOfLocal(terms.applyAt) : null;
  const revertAfter = readDuration(terms.revertAfter);
  const revertAfterS = terms.isReverted && "seconds" in revertAfter ? revertAfter.seconds : null;
  return {
    applyAt,
    revertAfterS,
    errors: {
      applyAt: terms.isTimed && terms.applyAt !== "" && applyAt === null ? "A day and a time." : undefined,
      revertAfter:
        terms.isReverted && terms.revertAfter !== "" && "error" in revertAfter ? revertAfter.error : undefined,
    },
    isReady:
      terms.reason.trim() !== "" &&
      (!terms.isTimed || applyAt !== null) &&
      (!terms.isReverted || revertAfterS !== null),
  };
}

/** What the server refused in each row: "/edits/0/guaranteed_mgpu" is about the first edit. */
function rowRefusals(error: Error | null, edits: readonly PlannedEditRequest[]): Record<string, RowErrors> {
  const found: Record<string, RowErrors> = {};
  if (!(error instanceof ApiError)) return found;
  for (const { pointer, detail } of error.problem.errors ?? []) {
    const [list, place, name = ""] = pointer.replace(/^#/, "").split("/").filter(Boolean);
    const quota = edits[Number(place)]?.quota;
    if (list !== "edits" || quota === undefined) continue;
    found[quota] = { ...found[quota], [API_FIELDS[name] ?? "guaranteed"]: detail };
  }
  return found;
}

function Editor({ quotas, old }: { quotas: readonly Quota[]; old: PlannedChange | null }) {
  const search = useSearch({ from: "/shell/quota-changes/new" });
  const navigate = useNavigate();
  const queryClient = useQueryClient();
  const archived = useQuery(poolsQuery).data?.filter((each) => each.archived_at !== null).map(({ name }) => name) ?? [];
  const pools = [...new Set(quotas.map((quota) => quota.pool))].filter((name) => !archived.includes(name));
  const pool = search.pool ?? old?.edits[0]?.pool ?? pools[0] ?? "";
  const form = useForm<DraftFields>({
    initialValues: { rows: old === null ? {} : rowsOfDraft(old), ...termsOf(old) },
  });
  const { rows, ...terms } = form.values;
  const read = readTerms(terms);

  const edited = quotas.flatMap((quota) => {
    const typed = rows[quota.id];
    const row = typed === undefined ? null : readRow(quota, typed);
    return row?.isEdited ? [{ quota, row }] : [];
  });
  const edits = edited.flatMap(({ row }) => (row.edit === null ? [] : [row.edit]));
  const hasMistakes = edits.length < edited.length;
  const isReady = edits.length > 0 && !hasMistakes && read.isReady;
  const key = useRef({ of: "", value: "" });

  const draft = useMutation({
    mutationFn: () => {
      const body = {
        edits,
        reason: terms.reason.trim(),
        apply_at: read.applyAt,
        revert_after_s: read.revertAfterS,
      };
      // The same draft keeps its key, so that pressing twice makes one.
      const text = JSON.stringify(body);
      if (key.current.of !== text) key.current = { of: text, value: newIdempotencyKey() };
      return unwrap(
        client.POST("/api/v1/quota-changes", {
          params: { header: { "Idempotency-Key": key.current.value } },
          body,
        }),
      );
    },
    onSuccess: async (made) => {
      if (old !== null && old.status === "draft" && old.can_manage) await giveUp(old.id);
      void queryClient.invalidateQueries({ queryKey: ["quotas", "planned"] });
      void navigate({ to: "/quota-changes/$plannedId", params: { plannedId: made.id }, search: { preview: "now" } });
    },
  });
  const refusals = draft.error instanceof ApiError ? draft.error.fieldErrors : {};
  const inRows = rowRefusals(draft.error, draft.isError ? edits : []);
  const elsewhere = edited.filter(({ quota }) => quota.pool !== pool).length;
  return (
    <form
      className="rows"
      onSubmit={form.onSubmit(() => {
        if (isReady) draft.mutate();
      })}
    >
      {old !== null && (
        <Card tone="note" role="note">
          You change the draft “{old.reason}”. What you save is a new draft; the old one is cancelled.
        </Card>
      )}
      <Card label="Figures">
        <div className="spread">
          <h2>Figures of pool {pool}</h2>
          {pools.length > 1 && (
            <SegmentedControl
              aria-label="Pool"
              size="xs"
              data={pools}
              value={pool}
              onChange={(next) =>
                void navigate({ to: ".", search: (before: object) => ({ ...before, pool: next }), replace: true })
              }
            />
          )}
        </div>
        <DraftTable
          quotas={quotas.filter((quota) => quota.pool === pool)}
          rows={rows}
          refusals={inRows}
          onChange={(id, typed) => form.setFieldValue("rows", (before) => ({ ...before, [id]: typed }))}
        />
      </Card>
      <Card label="Terms" className="stack">
        <div className="even top">
          <div className="stack">
            <Choice
              label="When"
              name="When it is applied"
              choices={["On approval", "At a time"]}
              isSecond={terms.isTimed}
              onChange={(isTimed) => form.setFieldValue("isTimed", isTimed)}
            />
            {terms.isTimed && (
              <TextInput
                type="datetime-local"
                label="Applied at"
                description={`Your time, ${zoneName(new Date())}. It is scheduled once it is decided.`}
                required
                {...form.getInputProps("applyAt")}
                error={read.errors.applyAt ?? refusals.apply_at}
              />
            )}
          </div>
          <div className="stack">
            <Choice
              label="For how long"
              name="Duration"
              choices={["Permanent", "Reverted after"]}
              isSecond={terms.isReverted}
              onChange={(isReverted) => form.setFieldValue("isReverted", isReverted)}
            />
            {terms.isReverted && (
              <TextInput
                label="Reverted after"
                description="From when it is applied: 12h, 3d, 1d12h. Skipped for quotas changed in the meantime."
                required
                placeholder="3d"
                {...form.getInputProps("revertAfter")}
                error={read.errors.revertAfter ?? refusals.revert_after_s}
              />
            )}
          </div>
        </div>
        <Textarea
          label="Reason"
          description="Shown in the history of each quota."
          required
          autosize
          minRows={2}
          maxLength={500}
          {...form.getInputProps("reason")}
          error={refusals.reason}
        />
        {draft.error && (
          <p className="bad-text" role="alert">
            {draft.error.message}
          </p>
        )}
        <div className="inline">
          <Button type="submit" loading={draft.isPending} disabled={!isReady}>
            Save the draft and preview it
          </Button>
          <Button variant="default" disabled={edited.length === 0} onClick={() => form.setFieldValue("rows", {})}>
            Clear the figures
          </Button>
          <span className="small dim" role="status" aria-live="polite">
            {edited.length === 0
              ? "No figure is changed yet."
              : hasMistakes
                ? "Some figures cannot be read; see above."
                : `${edits.length === 1 ? "1 quota is" : `${edits.length} quotas are`} changed${elsewhere > 0 ? `, ${elsewhere} of them in other pools` : ""}.`}
            {edits.length > 0 && terms.reason.trim() === "" && " Say why."}
          </span>
        </div>
      </Card>
      <CliLine command={commandOf(edited.map(({ quota, row }) => ({ quota, edit: row.edit })), pool)} />
    </form>
  );
}

/** A draft that was replaced. It stays where it was when that is refused: no harm is done. */
async function giveUp(id: string): Promise<void> {
  await client.POST("/api/v1/quota-changes/{planned_id}/cancel", { params: { path: { planned_id: id } } });
}

function Choice({
  label,
  name,
  choices,
  isSecond,
  onChange,
}: {
  label: string;
  name: string;
  choices: [string, string];
  isSecond: boolean;
  onChange: (isSecond: boolean) => void;
}) {
  return (
    <div className="stack tight">
      <span className="label">{label}</span>
      <SegmentedControl
        aria-label={name}
        data={choices}
        value={choices[isSecond ? 1 : 0]}
        onChange={(chosen) => onChange(chosen === choices[1])}
      />
    </div>
  );
}

/** The command that drafts the same. */
function commandOf(
  edited: readonly { quota: Quota; edit: PlannedEditRequest | null }[],
  pool: string,
): string {
  const value = (mgpu: number | null | undefined) => (mgpu === null || mgpu === undefined ? "none" : gpusToDecimal(mgpu));
  const parts = edited.flatMap(({ quota, edit }) => {
    if (edit === null || quota.pool !== pool) return [];
    const settings = [
      ...(edit.guaranteed_mgpu === undefined ? [] : [`guaranteed=${value(edit.guaranteed_mgpu)}`]),
      ...(edit.guaranteed_percent === undefined ? [] : [`guaranteed=${percentWords(edit.guaranteed_percent).replace(" ", "")}`]),
      ...(edit.borrow_limit_mgpu === undefined ? [] : [`borrow=${value(edit.borrow_limit_mgpu)}`]),
      ...(edit.lend_limit_mgpu === undefined ? [] : [`lend=${value(edit.lend_limit_mgpu)}`]),
      ...(edit.weight === undefined ? [] : [`weight=${edit.weight}`]),
    ];
    return [`${quota.node}:${settings.join(",")}`];
  });
  const shown = parts.length > 0 ? parts.slice(0, 3).join(" ") : "NODE:guaranteed=AMOUNT";
  return `tidegate quota-changes draft --pool ${pool} --reason WHY ${shown}${parts.length > 3 ? " …" : ""}`;
}
