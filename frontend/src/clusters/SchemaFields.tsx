import { Button, Checkbox, Input, PasswordInput, SegmentedControl, Select, Textarea, TextInput } from "@mantine/core";
import type { UseFormReturnType } from "@mantine/form";
import { useQuery } from "@tanstack/react-query";
import { useId, type ReactNode } from "react";

import { poolsQuery } from "../api/queries";
import {
  applies,
  branchesOf,
  isRequired,
  memberOf,
  rowOf,
  shapeOf,
  textOf,
  type Choice,
  type Fields,
  type Row,
  type Schema,
} from "./schema";

export interface ClusterFields {
  name: string;
  options: Fields;
}
type Form = UseFormReturnType<ClusterFields>;

/** A choice of so many is shown whole; of more, in a list. */
const SEGMENTS_MAX = 3;

/**
 * The options of an object at a place in the form: first what is always there, then "More options". In a member of
 * another object they stand side by side, after `lead`.
 */
export function SchemaFields({
  schema,
  fields,
  place,
  form,
  isMember = false,
  lead,
}: {
  schema: Schema;
  fields: Fields;
  place: string;
  form: Form;
  isMember?: boolean;
  lead?: ReactNode;
}) {
  const shown = Object.entries(schema.properties ?? {}).filter(([option]) => applies(schema, option, fields));
  const more = shown.filter(([, each]) => each["x-more"]);
  const isWrong = more.some(([option]) => hasError(form, `${place}.${option}`));
  const draw = ([option, each]: (typeof shown)[number]) => (
    <Field
      key={option}
      schema={each}
      draft={fields[option]}
      place={`${place}.${option}`}
      isRequired={isRequired(schema, option)}
      isMember={isMember}
      form={form}
    />
  );
  const layout = isMember ? "even top" : "stack";
  return (
    <>
      <div className={layout}>
        {lead}
        {shown.filter(([, each]) => !each["x-more"]).map(draw)}
      </div>
      {more.length > 0 && (
        <details className="advanced" open={isWrong || undefined}>
          <summary>More options</summary>
          <div className={layout}>{more.map(draw)}</div>
        </details>
      )}
    </>
  );
}

function hasError(form: Form, place: string): boolean {
  return Object.keys(form.errors).some((each) => each === place || each.startsWith(`${place}.`));
}

interface FieldProps {
  schema: Schema;
  place: string;
  isRequired: boolean;
  isMember: boolean;
  form: Form;
}

/** Side by side, inputs are in one line, and what is said of them is below. */
const ORDER_OF_MEMBERS: ("label" | "input" | "description" | "error")[] = ["label", "input", "description", "error"];

/** Where each value has a line. */
const LINES = { autosize: true, minRows: 1, maxRows: 12, classNames: { input: "mono" } };

function Field({ draft, ...props }: FieldProps & { draft: Fields[string] | undefined }) {
  const { schema, place, isRequired, isMember, form } = props;
  const shape = shapeOf(schema);
  const common = {
    label: schema.title,
    description: helpOf(schema),
    required: isRequired,
    placeholder: textOf(schema.examples?.[0] ?? schema.default),
    spellCheck: false,
    inputWrapperOrder: isMember ? ORDER_OF_MEMBERS : undefined,
    ...form.getInputProps(place),
  };
  switch (shape) {
    case "choice":
      return <ChoiceField {...props} choice={draft as Choice} />;
    case "flag":
      return (
        <Checkbox
          label={schema.title}
          description={schema.description}
          {...form.getInputProps(place, { type: "checkbox" })}
        />
      );
    case "rows":
    case "named":
      return <Rows {...props} rows={draft as readonly Row[]} />;
    case "group":
      return (
        <fieldset className="advanced stack">
          <legend>{schema.title}</legend>
          <SchemaFields schema={schema} fields={draft as Fields} place={place} form={form} isMember />
        </fieldset>
      );
    case "words":
    case "pairs":
      return <Textarea {...common} {...LINES} />;
    default:
      if (schema.writeOnly) return <PasswordInput {...common} autoComplete="off" />;
      return <TextInput {...common} inputMode={shape === "number" ? "numeric" : undefined} />;
  }
}

/** What the schema says, and how several values are written. */
function helpOf(schema: Schema): string | undefined {
  const how = {
    words: "One on each line.",
    pairs: `Each on a line, as ${schema["x-pairs"] ?? "name=value"}.`,
  };
  const shape = shapeOf(schema);
  const parts = [schema.description, shape === "words" || shape === "pairs" ? how[shape] : undefined];
  return parts.filter(Boolean).join(" ") || undefined;
}

/** One of a few; where the chosen one is no constant, a field for it. */
function ChoiceField({ schema, choice, place, form }: FieldProps & { choice: Choice }) {
  const id = useId();
  const branches = branchesOf(schema);
  const data = branches.map(({ title = "" }, at) => ({ value: String(at), label: title }));
  const free = branches[Number(choice.pick)] ?? {};
  const hasLines = shapeOf(free) === "words" || shapeOf(free) === "pairs";
  const FreeInput = hasLines ? Textarea : TextInput;
  const error = form.errors[place];
  const describedBy = [schema.description && `${id}-help`, error && `${id}-error`].filter(Boolean).join(" ") || undefined;
  const pick = (value: string | null) => form.setFieldValue(`${place}.pick`, value ?? choice.pick);
  const wrapper = { label: schema.title, description: schema.description, error };
  return (
    <div className="stack tight">
      {data.length > SEGMENTS_MAX ? (
        <Select {...wrapper} allowDeselect={false} data={data} value={choice.pick} onChange={pick} />
      ) : (
        <Input.Wrapper
          {...wrapper}
          labelElement="div"
          labelProps={{ id: `${id}-label` }}
          descriptionProps={{ id: `${id}-help` }}
          errorProps={{ id: `${id}-error` }}
        >
          <div className="segments">
            <SegmentedControl
              aria-labelledby={`${id}-label`}
              aria-describedby={describedBy}
              value={choice.pick}
              onChange={pick}
              data={data}
            />
          </div>
        </Input.Wrapper>
      )}
      {!("const" in free) && (
        <FreeInput
          aria-label={`${schema.title}: ${free.title}`}
          placeholder={textOf(schema.examples?.[0] ?? schema.default)}
          description={helpOf({ ...free, description: undefined })}
          inputWrapperOrder={["input", "description"]}
          spellCheck={false}
          {...(hasLines && LINES)}
          {...form.getInputProps(`${place}.free`)}
          aria-invalid={error ? true : undefined}
        />
      )}
    </div>
  );
}

/** A list of objects, or objects by their names. */
function Rows({ schema, rows, place, form }: FieldProps & { rows: readonly Row[] }) {
  const member = memberOf(schema);
  const isNamed = shapeOf(schema) === "named";
  const names = schema.propertyNames ?? member;
  const noun = (names.title ?? schema.title ?? "").toLowerCase();
  const isFixed = rows.length <= (schema.minItems ?? schema.minProperties ?? 0);
  const known = useKnownNames(schema);
  const error = form.errors[place];
  return (
    <fieldset className="advanced stack">
      <legend>{schema.title}</legend>
      {(schema.description || known) && (
        <p className="dim small">
          {schema.description} {known && `There are: ${known}.`}
        </p>
      )}
      {rows.map((row, at) => (
        <fieldset className="plain-set stack member" key={at}>
          <legend className="visually-hidden">{row.name || `${names.title ?? schema.title} ${at + 1}`}</legend>
          <SchemaFields
            schema={member}
            fields={row.fields}
            place={`${place}.${at}.fields`}
            form={form}
            isMember
            lead={
              isNamed && (
                <TextInput
                  label={names.title}
                  description={names.description}
                  inputWrapperOrder={ORDER_OF_MEMBERS}
                  required
                  spellCheck={false}
                  {...form.getInputProps(`${place}.${at}.name`)}
                />
              )
            }
          />
          {!isFixed && (
            <div>
              <Button
                variant="default"
                size="xs"
                aria-label={`Remove ${noun} ${at + 1}`}
                onClick={() => form.removeListItem(place, at)}
              >
                Remove
              </Button>
            </div>
          )}
        </fieldset>
      ))}
      {error && (
        <p className="bad-text" role="alert">
          {error}
        </p>
      )}
      <div>
        <Button variant="default" size="xs" onClick={() => form.insertListItem(place, rowOf(schema))}>
          {rows.length === 0 ? `Add a ${noun}` : `Another ${noun}`}
        </Button>
      </div>
    </fieldset>
  );
}

/** What the members of an object may be called. */
function useKnownNames(schema: Schema): string {
  const isOfPools = schema["x-names"] === "pools";
  const pools = useQuery({ ...poolsQuery, enabled: isOfPools }).data ?? [];
  if (!isOfPools) return "";
  return pools
    .filter((pool) => pool.archived_at === null)
    .map((pool) => pool.name)
    .join(", ");
}
