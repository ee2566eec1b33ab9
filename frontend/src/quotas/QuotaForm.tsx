import { Button, SegmentedControl, Textarea, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { ApiError, client, unwrap } from "../api/client";
import type { Quota, QuotaPatch } from "../api/types";
import { useDraft } from "../planned/useDraft";
import { Card } from "../ui/Card";
import { DataTable } from "../ui/DataTable";
import { toastDone } from "../ui/toast";
import { DEVICE_WORDS, formatGpuCount, formatGpus, gpusToDecimal, parseGpus } from "../ui/units";
import { describeChange, describeValue } from "./changes";
import { fieldsOf, parsePercent, percentText, readForm, type QuotaFields } from "./form";

/**
 * Changes one quota against the version that was on screen. When somebody else was faster the
 * server refuses, and both states are shown side by side before anything is written.
 */
export function QuotaForm({
  quota,
  parent,
  onSaved,
}: {
  quota: Quota;
  parent: Quota | null;
  onSaved: () => void;
}) {
  const queryClient = useQueryClient();
  const [base, setBase] = useState(quota);
  const form = useForm<QuotaFields>({ initialValues: fieldsOf(quota) });
  const fields = form.values;
  const [conflict, setConflict] = useState<{ current: Quota; patch: QuotaPatch } | null>(null);
  const canEdit = (field: Quota["can_edit"][number]) => base.can_edit.includes(field);
  const reading = readForm(base, fields);
  const devices = DEVICE_WORDS[quota.device];

  const save = useMutation({
    mutationFn: ({ patch, version }: { patch: QuotaPatch; version: number }) =>
      unwrap(
        client.PATCH("/api/v1/quotas/{quota_id}", {
          params: { path: { quota_id: quota.id }, header: { "If-Match": `"v${version}"` } },
          body: patch,
        }),
      ),
    onError: (error, { patch }) => {
      const current = error instanceof ApiError && error.status === 412 ? error.problem.current : null;
      if (current) setConflict({ current: current as Quota, patch });
    },
    onSuccess: (saved, { patch }) => {
      toastDone(`${saved.node}, ${saved.pool}: ${describeChange(null, patch).join(", ")}`);
      void queryClient.invalidateQueries({ queryKey: ["quotas"] });
      onSaved();
    },
  });
  const draft = useDraft();
  const refused = save.error ?? draft.error;
  const refusals = refused instanceof ApiError ? refusalsByField(refused) : {};
  const isBusy = save.isPending || draft.isPending;
  const isConflict = save.error instanceof ApiError && save.error.status === 412;

  if (conflict) {
    return (
      <Conflict
        base={base}
        current={conflict.current}
        patch={conflict.patch}
        isBusy={save.isPending}
        onApply={() => save.mutate({ patch: conflict.patch, version: conflict.current.version })}
        onTakeTheirs={() => {
          setBase(conflict.current);
          form.setValues({ ...fieldsOf(conflict.current), reason: fields.reason });
          setConflict(null);
          save.reset();
        }}
      />
    );
  }
  return (
    <form
      className="stack"
      onSubmit={form.onSubmit(() => {
        if (reading.patch === null) return;
        save.reset();
        const { reason, ...edit } = reading.patch;
        draft.mutate({ edits: [{ quota: quota.id, ...edit }], reason });
      })}
    >
      {canEdit("guaranteed_mgpu") && (
        <div className="stack">
          <div className="inline" style={{ alignItems: "flex-end" }}>
            <TextInput
              label="Guaranteed"
              inputMode="decimal"
              {...form.getInputProps("guaranteed")}
              error={reading.errors.guaranteed ?? refusals.guaranteed_mgpu ?? refusals.guaranteed_percent}
            />
            {parent && (
              <SegmentedControl
                aria-label="Unit of the guarantee"
                data={[
                  { value: "gpus", label: devices },
                  { value: "percent", label: `% of ${parent.node_name}` },
                ]}
                value={fields.unit}
                onChange={(unit) => form.setValues(convertUnit(fields, unit === "percent" ? "percent" : "gpus", parent))}
              />
            )}
          </div>
          <Effect quota={base} parent={parent} fields={fields} nextMgpu={reading.guaranteedMgpu(parent)} />
        </div>
      )}
      {canEdit("borrow_limit_mgpu") && (
        <TextInput
          label="Borrow limit"
          description={`How many ${devices} above the guarantee. Empty: no limit of its own; 0: never.`}
          inputMode="decimal"
          {...form.getInputProps("borrowLimit")}
          error={reading.errors.borrowLimit ?? refusals.borrow_limit_mgpu}
        />
      )}
      {canEdit("lend_limit_mgpu") && (
        <TextInput
          label="Lend limit"
          description={`How many idle ${devices} others may use. Empty: all of them.`}
          inputMode="decimal"
          {...form.getInputProps("lendLimit")}
          error={reading.errors.lendLimit ?? refusals.lend_limit_mgpu}
        />
      )}
      {canEdit("weight") && (
        <TextInput
          label={`Weight for spare ${devices}`}
          inputMode="numeric"
          {...form.getInputProps("weight")}
          error={reading.errors.weight ?? refusals.weight}
        />
      )}
      <Textarea
        label="Reason"
        description="Shown in the history of the quota."
        required
        autosize
        minRows={2}
        {...form.getInputProps("reason")}
        error={refusals.reason}
      />
      {refused && !isConflict && (
        <p className="bad-text" role="alert">
          {refused.message}
        </p>
      )}
      <div className="inline">
        <Button type="submit" loading={draft.isPending} disabled={reading.patch === null || isBusy}>
          Preview and save
        </Button>
        <Button
          variant="default"
          loading={save.isPending}
          disabled={reading.patch === null || isBusy}
          onClick={() => {
            draft.reset();
            if (reading.patch) save.mutate({ patch: reading.patch, version: base.version });
          }}
        >
          Save without preview
        </Button>
      </div>
      <p className="small faint">
        The preview shows which jobs would start or give back. Without it, the change takes effect with the next
        decision.
      </p>
    </form>
  );
}

/** What is wrong by the field that it is about, whether the change was sent as a draft or by itself. */
function refusalsByField(error: ApiError): Record<string, string> {
  return Object.fromEntries(
    (error.problem.errors ?? []).map(({ pointer, detail }) => [pointer.split("/").at(-1) ?? "", detail]),
  );
}

/** The same guarantee said in the other unit, where it can be said exactly enough. */
function convertUnit(fields: QuotaFields, unit: "gpus" | "percent", parent: Quota): Partial<QuotaFields> {
  if (unit === fields.unit) return {};
  if (unit === "percent") {
    const mgpu = parseGpus(fields.guaranteed);
    if (mgpu === null || parent.guaranteed_mgpu === 0) return { unit, guaranteed: "" };
    return { unit, guaranteed: percentText(Math.round((mgpu * 10_000) / parent.guaranteed_mgpu)) };
  }
  const hundredths = parsePercent(fields.guaranteed);
  return {
    unit,
    guaranteed:
      hundredths === null
        ? ""
        : gpusToDecimal(Math.floor((parent.guaranteed_mgpu * hundredths) / 10_000)),
  };
}

/** What the typed guarantee would do to the parent's reserve and to what is below. */
function Effect({
  quota,
  parent,
  fields,
  nextMgpu,
}: {
  quota: Quota;
  parent: Quota | null;
  fields: QuotaFields;
  nextMgpu: number | null;
}) {
  if (nextMgpu === null) return null;
  const parentReserve = parent && parent.reserve_mgpu + quota.guaranteed_mgpu - nextMgpu;
  const ownReserve = quota.reserve_mgpu + nextMgpu - quota.guaranteed_mgpu;
  const overPhysicalUse = quota.use.protected_mgpu - nextMgpu;
  return (
    <div className="small" role="status" aria-live="polite">
      {fields.unit === "percent" && <div className="dim">About {formatGpuCount(nextMgpu, quota.device)}.</div>}
      {parent && parentReserve !== null && (
        <div className={parentReserve < 0 ? "bad-text" : "dim"}>
          {parentReserve < 0
            ? `▲ ${formatGpus(-parentReserve)} more than ${parent.node_name} has: its children would be guaranteed ${formatGpus(parent.guaranteed_mgpu - parentReserve)} of ${formatGpus(parent.guaranteed_mgpu)}.`
            : `${parent.node_name} keeps ${formatGpuCount(parentReserve, quota.device)} in reserve (now ${formatGpus(parent.reserve_mgpu)}).`}
        </div>
      )}
      {quota.node_kind !== "team" && ownReserve < 0 && (
        <div className="bad-text">
          ▲ {formatGpus(-ownReserve)} less than what {quota.node_name} guarantees to those below it.
        </div>
      )}
      {overPhysicalUse > 0 && (
        <div className="dim">
          {formatGpuCount(overPhysicalUse, quota.device)} now in use inside the guarantee would count as borrowed and may
          be reclaimed.
        </div>
      )}
    </div>
  );
}

const FIELD_NAMES: readonly (readonly [keyof QuotaPatch & keyof Quota, string])[] = [
  ["guaranteed_mgpu", "Guaranteed"],
  ["guaranteed_percent", "Percent of parent"],
  ["borrow_limit_mgpu", "Borrow limit"],
  ["lend_limit_mgpu", "Lend limit"],
  ["weight", "Weight"],
];

/** Three states of each field that differs: when I opened it, now, and mine. */
function Conflict({
  base,
  current,
  patch,
  isBusy,
  onApply,
  onTakeTheirs,
}: {
  base: Quota;
  current: Quota;
  patch: QuotaPatch;
  isBusy: boolean;
  onApply: () => void;
  onTakeTheirs: () => void;
}) {
  const shown = FIELD_NAMES.filter(([field]) => base[field] !== current[field] || field in patch);
  return (
    <Card tone="warn" className="stack" role="alert">
      <h2>Another person changed this first</h2>
      <p>Nothing was written. Compare, then decide.</p>
      <DataTable
        rows={shown}
        rowKey={([field]) => field}
        columns={[
          { header: "Field", isHeading: true, cell: ([, label]) => label },
          {
            header: "You saw",
            isRight: true,
            className: "dim",
            cell: ([field]) => describeValue(field, base[field]),
          },
          {
            header: "Now",
            isRight: true,
            cell: ([field]) =>
              base[field] === current[field] ? (
                describeValue(field, current[field])
              ) : (
                <b>{describeValue(field, current[field])}</b>
              ),
          },
          {
            header: "Yours",
            isRight: true,
            cell: ([field]) => (field in patch ? <b>{describeValue(field, patch[field])}</b> : "as it is"),
          },
        ]}
      />
      <div className="inline">
        <Button loading={isBusy} onClick={onApply}>
          Apply mine on top
        </Button>
        <Button variant="default" onClick={onTakeTheirs}>
          Start again from what is there now
        </Button>
      </div>
    </Card>
  );
}
