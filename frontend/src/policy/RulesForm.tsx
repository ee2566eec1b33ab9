import { Button, Select, Switch, TextInput } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";

import { ApiError } from "../api/client";
import { toastDone } from "../ui/toast";
import { RankField } from "./RankField";
import { rangeText, readField, showValue, typedOf, type Field, type Typed, type Value } from "./fields";

export type Rules = Readonly<Record<string, Value>> & { version: number };

/**
 * Settings against the version that was on screen: only what differs is sent. Where somebody else was
 * faster nothing is written, what they changed is told, and what was typed stays.
 */
export function RulesForm({
  rules,
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
  const [base, setBase] = useState(rules);
  const [typed, setTyped] = useState<Readonly<Record<string, Typed>>>({});
  const [theirs, setTheirs] = useState<Rules | null>(null);
  const reads = fields.map((field) => {
    const before = base[field.name] ?? null;
    const now = typed[field.name] ?? typedOf(field, before);
    const read = readField(field, now);
    const differs = "value" in read && JSON.stringify(read.value) !== JSON.stringify(before);
    return { field, now, read, differs };
  });
  const mistakes = reads.filter(({ read }) => "error" in read);
  const changed = reads.filter(({ differs }) => differs);
  const patch = Object.fromEntries(
    changed.flatMap(({ field, read }) => ("value" in read ? [[field.name, read.value]] : [])),
  );
  const save = useMutation({
    mutationFn: () => onSave(patch, base.version),
    onSuccess: (answer) => {
      const saved = answer as Rules;
      setBase(saved);
      setTyped({});
      setTheirs(null);
      toastDone(
        changed
          .map(({ field }) => `${field.label}: ${showValue(field, saved[field.name] ?? null)}`)
          .join(" · ") || "Nothing was different.",
      );
      onSaved(saved);
    },
    onError: (error) => {
      const current = error instanceof ApiError && error.status === 412 ? error.problem.current : null;
      if (current) setTheirs(current as Rules);
    },
  });
  const refusals = save.error instanceof ApiError ? save.error.fieldErrors : {};
  return (
    <form
      className="stack"
      onSubmit={(event) => {
        event.preventDefault();
        if (changed.length > 0 && mistakes.length === 0) save.mutate();
      }}
    >
      {theirs && (
        <div className="card mark warn" role="alert">
          <h2>Somebody else changed this first</h2>
          <p>Nothing was written, and what you typed is kept.</p>
          <ul>
            {fields
              .filter(({ name }) => JSON.stringify(base[name]) !== JSON.stringify(theirs[name]))
              .map((field) => (
                <li key={field.name}>
                  {field.label}: {showValue(field, base[field.name] ?? null)} is now{" "}
                  <b>{showValue(field, theirs[field.name] ?? null)}</b>
                </li>
              ))}
          </ul>
          <Button
            variant="default"
            size="xs"
            onClick={() => {
              setBase(theirs);
              setTheirs(null);
              save.reset();
            }}
          >
            Go on from there, with what I typed
          </Button>
        </div>
      )}
      <div className="even top">
        {reads.map(({ field, now, read }) => (
          <Input
            key={field.name}
            field={field}
            typed={now}
            paths={paths ?? []}
            error={("error" in read ? read.error : undefined) ?? refusals[field.name]}
            onChange={(value) => setTyped({ ...typed, [field.name]: value })}
          />
        ))}
      </div>
      {save.error && !theirs && (
        <p className="bad-text" role="alert">
          {save.error.message}
        </p>
      )}
      <div className="inline">
        <Button
          type="submit"
          loading={save.isPending}
          disabled={changed.length === 0 || mistakes.length > 0 || theirs !== null}
        >
          Save
        </Button>
        <span className="small faint">Takes effect with the next decision.</span>
      </div>
    </form>
  );
}

function Input({
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
          inputMode={field.kind === "count" || field.kind === "gpus" ? "decimal" : undefined}
          maxLength={field.kind === "text" ? field.max : undefined}
          value={String(typed)}
          onChange={(event) => onChange(event.currentTarget.value)}
        />
      );
  }
}
