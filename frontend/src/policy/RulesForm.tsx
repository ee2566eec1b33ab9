import { Button, Select, Switch, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";

import { ApiError } from "../api/client";
import { Card } from "../ui/Card";
import { toastDone } from "../ui/toast";
import { RankField } from "./RankField";
import { rangeText, readField, showValue, typedOf, type Field, type Typed, type Value } from "./fields";

export type Rules = Readonly<Record<string, Value>> & { version: number };

/** What somebody typed, and what the field said before: whether others changed it since can be seen. */
interface Entry {
  value: Typed;
  over: Value;
}

/** By field, what was typed and not saved yet. */
interface Typing {
  entries: Readonly<Record<string, Entry>>;
}

/**
 * Settings against the version that is on screen: only what was typed is sent. Fields that nobody typed in
 * follow what is changed elsewhere. Where a typed one was changed too, both values are told and nothing is
 * saved before somebody chose; likewise where somebody else was faster.
 */
export function RulesForm({
  rules: loaded,
  fields,
  paths,
  onSave,
  onSaved,
}: {
  rules: Rules;
  fields: readonly Field[];
  /** Nodes that may be ranked. */
  paths?: readonly string[];
  onSave: (patch: Record<string, Value>, version: number) => Promise<object>;
  onSaved: (saved: Rules) => void;
}) {
  const [answered, setAnswered] = useState(loaded);
  const form = useForm<Typing>({ initialValues: { entries: {} } });
  const typed = form.values.entries;
  const setTyped = (entries: Typing["entries"]) => form.setFieldValue("entries", entries);
  const [refusedOver, setRefusedOver] = useState<Rules | null>(null);
  // An answer to a change is newer than what was read before it.
  const rules = answered.version > loaded.version ? answered : loaded;
  const reads = fields.map((field) => {
    const before = rules[field.name] ?? null;
    const entry = typed[field.name];
    const now = entry === undefined ? typedOf(field, before) : entry.value;
    const read = readField(field, now);
    const differs = entry !== undefined && "value" in read && !isSame(read.value, before);
    return { field, now, read, differs };
  });
  const mistakes = reads.filter(({ read }) => "error" in read);
  const changed = reads.filter(({ differs }) => differs);
  const patch = Object.fromEntries(
    changed.flatMap(({ field, read }) => ("value" in read ? [[field.name, read.value]] : [])),
  );
  const told = reads.flatMap(({ field, read }) => {
    const entry = typed[field.name];
    const after = rules[field.name] ?? null;
    const before = entry !== undefined ? entry.over : refusedOver !== null ? (refusedOver[field.name] ?? null) : after;
    const agrees = entry !== undefined && "value" in read && isSame(read.value, after);
    return isSame(before, after) || agrees ? [] : [{ field, before, after, isTyped: entry !== undefined }];
  });
  const save = useMutation({
    mutationFn: () => onSave(patch, rules.version),
    onSuccess: (answer) => {
      const saved = answer as Rules;
      setAnswered(saved);
      setTyped({});
      setRefusedOver(null);
      toastDone(
        changed
          .map(({ field }) => `${field.label}: ${showValue(field, saved[field.name] ?? null)}`)
          .join(" · ") || "Nothing was different.",
      );
      onSaved(saved);
    },
    onError: (error) => {
      const current = error instanceof ApiError && error.status === 412 ? error.problem.current : null;
      if (!current) return;
      setRefusedOver(rules);
      setAnswered(current as Rules);
    },
  });
  /** What says again what the field said before counts as not typed. */
  const type = (field: Field, value: Typed) => {
    const { [field.name]: entry, ...others } = typed;
    const over = entry === undefined ? (rules[field.name] ?? null) : entry.over;
    setTyped(isSame(value, typedOf(field, over)) ? others : { ...others, [field.name]: { value, over } });
  };
  const goOn = (keepsTyped: boolean) => {
    const kept = Object.entries(typed).filter(([name]) => keepsTyped || !told.some(({ field }) => field.name === name));
    setTyped(Object.fromEntries(kept.map(([name, { value }]) => [name, { value, over: rules[name] ?? null }])));
    setRefusedOver(null);
    save.reset();
  };
  const isStopped = refusedOver !== null || told.some(({ isTyped }) => isTyped);
  const refusals = save.error instanceof ApiError ? save.error.fieldErrors : {};
  return (
    <form
      className="stack"
      onSubmit={form.onSubmit(() => {
        if (changed.length > 0 && mistakes.length === 0 && !isStopped) save.mutate();
      })}
    >
      {isStopped && (
        <Card tone="warn" role="alert">
          <h2>{refusedOver === null ? "Another person changed these fields" : "Another person changed this first"}</h2>
          <p>{refusedOver !== null && "Nothing was written. "}What you typed is kept.</p>
          <ul>
            {told.map(({ field, before, after }) => (
              <li key={field.name}>
                {field.label}: {showValue(field, before)} is now <b>{showValue(field, after)}</b>
              </li>
            ))}
          </ul>
          <div className="inline">
            <Button variant="default" size="xs" onClick={() => goOn(true)}>
              Go on from there, with what I typed
            </Button>
            {told.some(({ isTyped }) => isTyped) && (
              <Button variant="default" size="xs" onClick={() => goOn(false)}>
                Take theirs
              </Button>
            )}
          </div>
        </Card>
      )}
      <div className="even top">
        {reads.map(({ field, now, read }) => (
          <RuleInput
            key={field.name}
            field={field}
            typed={now}
            paths={paths ?? []}
            error={("error" in read ? read.error : undefined) ?? refusals[field.name]}
            onChange={(value) => type(field, value)}
          />
        ))}
      </div>
      {save.error && refusedOver === null && (
        <p className="bad-text" role="alert">
          {save.error.message}
        </p>
      )}
      <div className="inline">
        <Button
          type="submit"
          loading={save.isPending}
          disabled={changed.length === 0 || mistakes.length > 0 || isStopped}
        >
          Save
        </Button>
        <span className="small faint">Takes effect with the next decision.</span>
      </div>
    </form>
  );
}

function isSame(a: Value, b: Value): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}

/** One setting, as it is typed. */
export function RuleInput({
  field,
  typed,
  paths,
  error,
  onChange,
}: {
  field: Field;
  typed: Typed;
  paths: readonly string[];
  error: string | undefined;
  onChange: (typed: Typed) => void;
}) {
  const range = rangeText(field);
  const description = range === null ? field.meaning : `${field.meaning} ${range}.`;
  switch (field.kind) {
    case "yes":
      return (
        <Switch
          label={field.label}
          description={description}
          error={error}
          checked={typed === true}
          onChange={(event) => onChange(event.currentTarget.checked)}
        />
      );
    case "choice":
      return (
        <Select
          label={field.label}
          description={description}
          error={error}
          allowDeselect={false}
          data={[...(field.choices ?? [])]}
          value={String(typed)}
          onChange={(value) => value && onChange(value)}
        />
      );
    case "rank":
      return (
        <RankField
          label={field.label}
          description={description}
          error={error}
          paths={paths}
          ranked={Array.isArray(typed) ? (typed as readonly string[]) : []}
          onChange={onChange}
        />
      );
    default:
      return (
        <TextInput
          label={field.label}
          description={description}
          error={error}
          inputMode={["count", "optional count", "gpus", "multiplier"].includes(field.kind) ? "decimal" : undefined}
          maxLength={field.kind === "text" ? field.max : undefined}
          value={String(typed)}
          onChange={(event) => onChange(event.currentTarget.value)}
        />
      );
  }
}
