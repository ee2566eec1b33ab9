/**
 * The options of a cluster as a form, by the JSON Schema that the server gives of their kind. What is empty, or is
 * the default, is left to the server.
 */

export interface Schema {
  type?: string | readonly string[];
  title?: string;
  description?: string;
  default?: unknown;
  examples?: readonly unknown[];
  const?: unknown;
  oneOf?: readonly Schema[];
  anyOf?: readonly Schema[];
  items?: Schema;
  minItems?: number;
  properties?: Readonly<Record<string, Schema>>;
  required?: readonly string[];
  additionalProperties?: Schema | boolean;
  propertyNames?: Schema;
  minProperties?: number;
  minimum?: number;
  maximum?: number;
  writeOnly?: boolean;
  /** By sibling, the values with which this option applies. */
  "x-when"?: Readonly<Record<string, readonly unknown[]>>;
  /** Required while it applies. */
  "x-needed"?: boolean;
  /** Behind "More options". */
  "x-more"?: boolean;
  /** Names of an object are those of the portal's pools. */
  "x-names"?: "pools";
  /** How a member of an object of texts is written: "label=value". */
  "x-pairs"?: string;
}

/** What a form holds of an option: texts as they are typed. */
export type Draft = string | boolean | Choice | readonly Row[] | Fields;
/** The position of the chosen schema, and what is typed where that is no constant. */
export interface Choice {
  pick: string;
  free: Draft;
}
/** A member of a list, or one of an object by its name. */
export interface Row {
  name: string;
  fields: Fields;
}
export interface Fields {
  [option: string]: Draft;
}
/** By place in the form, what is wrong there. */
export type Problems = Record<string, string>;

export type Shape = "text" | "number" | "flag" | "choice" | "words" | "pairs" | "rows" | "named" | "group";

export function shapeOf(schema: Schema): Shape {
  if (schema.oneOf ?? schema.anyOf) return "choice";
  const type = [schema.type ?? "string"].flat().find((each) => each !== "null");
  if (type === "boolean") return "flag";
  if (type === "integer") return "number";
  if (type === "array") return schema.items?.properties ? "rows" : "words";
  if (type !== "object") return "text";
  if (schema.properties) return "group";
  return memberOf(schema).properties ? "named" : "pairs";
}

/** The schema of the members of a list or an object. */
export function memberOf({ items, additionalProperties }: Schema): Schema {
  return items ?? (typeof additionalProperties === "object" ? additionalProperties : {});
}

export function branchesOf(schema: Schema): readonly Schema[] {
  return schema.oneOf ?? schema.anyOf ?? [];
}

const isConstant = (schema: Schema) => "const" in schema;
const isSame = (one: unknown, other: unknown) => JSON.stringify(one) === JSON.stringify(other);
const asObject = (value: unknown): Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : {};

/** What a form shows of a value; `undefined`: none was given. */
export function draftOf(schema: Schema, value: unknown): Draft {
  switch (shapeOf(schema)) {
    case "choice": {
      const branches = branchesOf(schema);
      const given = value === undefined ? schema.default : value;
      const constant = branches.findIndex((each) => isConstant(each) && isSame(each.const, given));
      const free = branches.findIndex((each) => !isConstant(each));
      return {
        pick: String(constant >= 0 ? constant : Math.max(free, 0)),
        free: draftOf(branches[free] ?? {}, constant >= 0 ? undefined : value),
      };
    }
    case "flag":
      return (value ?? schema.default) === true;
    case "rows": {
      const given = value ?? schema.default ?? [];
      return (Array.isArray(given) ? given : [given]).map((each) => rowOf(schema, each));
    }
    case "named": {
      const rows = Object.entries(asObject(value)).map(([name, each]) => rowOf(schema, each, name));
      return rows.length === 0 && schema.minProperties ? [rowOf(schema)] : rows;
    }
    case "group":
      return fieldsOf(schema, asObject(value));
    default:
      return textOf(value);
  }
}

export function fieldsOf(schema: Schema, values: Readonly<Record<string, unknown>>): Fields {
  return Object.fromEntries(
    Object.entries(schema.properties ?? {}).map(([name, each]) => [name, draftOf(each, values[name])]),
  );
}

/** A member of a list or an object; an empty one without a value. */
export function rowOf(schema: Schema, value: unknown = {}, name = ""): Row {
  return { name, fields: fieldsOf(memberOf(schema), asObject(value)) };
}

/** A value as it is typed: a text may contain spaces and commas, so that several, and pairs, have a line each. */
export function textOf(value: unknown): string {
  if (value === null || value === undefined) return "";
  if (Array.isArray(value)) return value.join("\n");
  if (typeof value === "object") {
    return Object.entries(value)
      .map(([name, each]) => `${name}=${String(each)}`)
      .join("\n");
  }
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** Whether an option applies, by the options beside it. */
export function applies(schema: Schema, option: string, fields: Fields): boolean {
  const conditions = Object.entries(schema.properties?.[option]?.["x-when"] ?? {});
  return conditions.every(([sibling, values]) => {
    const other = schema.properties?.[sibling] ?? {};
    const value = read(other, fields[sibling], "", {}) ?? other.default ?? null;
    return values.some((each) => isSame(each, value));
  });
}

export function isRequired(schema: Schema, option: string): boolean {
  return (schema.required ?? []).includes(option) || schema.properties?.[option]?.["x-needed"] === true;
}

/** The options of an object that apply, without defaults. Adds to `problems` what cannot be sent. */
export function readFields(schema: Schema, fields: Fields, place: string, problems: Problems): Record<string, unknown> {
  const values: Record<string, unknown> = {};
  for (const [option, each] of Object.entries(schema.properties ?? {})) {
    if (!applies(schema, option, fields)) continue;
    const at = `${place}.${option}`;
    const value = read(each, fields[option], at, problems);
    if (value === undefined) {
      if (isRequired(schema, option) && !(at in problems)) problems[at] = "is needed";
    } else if (!("default" in each && isSame(value, each.default))) {
      values[option] = value;
    }
  }
  return values;
}

function read(schema: Schema, draft: Draft | undefined, place: string, problems: Problems): unknown {
  if (draft === undefined) return undefined;
  switch (shapeOf(schema)) {
    case "choice": {
      const { pick, free } = draft as Choice;
      const branch = branchesOf(schema)[Number(pick)] ?? {};
      if (isConstant(branch)) return branch.const;
      const value = read(branch, free, place, problems);
      if (value === undefined && !(place in problems)) problems[place] = "is needed";
      return value;
    }
    case "flag":
      return draft;
    case "rows":
      return (draft as readonly Row[]).map(({ fields }, i) =>
        readFields(memberOf(schema), fields, `${place}.${i}.fields`, problems),
      );
    case "named":
      return readNamed(schema, draft as readonly Row[], place, problems);
    case "group": {
      const values = readFields(schema, draft as Fields, place, problems);
      return Object.keys(values).length > 0 ? values : undefined;
    }
    default:
      return readText(schema, (draft as string).trim(), place, problems);
  }
}

function readNamed(schema: Schema, rows: readonly Row[], place: string, problems: Problems): unknown {
  const values: Record<string, unknown> = {};
  rows.forEach(({ name: typed, fields }, i) => {
    const name = typed.trim();
    if (name === "") problems[`${place}.${i}.name`] = "is needed";
    else if (name in values) problems[`${place}.${i}.name`] = "is there twice";
    values[name] = readFields(memberOf(schema), fields, `${place}.${i}.fields`, problems);
  });
  return rows.length > 0 ? values : undefined;
}

function readText(schema: Schema, text: string, place: string, problems: Problems): unknown {
  if (text === "") return undefined;
  const lines = text
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "");
  switch (shapeOf(schema)) {
    case "number": {
      if (/^\d{1,15}$/.test(text)) return Number(text);
      problems[place] = "must be a whole number";
      return undefined;
    }
    case "words":
      return lines;
    case "pairs": {
      const pairs = lines.map((line) => [line.split("=", 1)[0] ?? "", line.slice(line.indexOf("=") + 1)] as const);
      if (lines.every((line) => line.indexOf("=") > 0)) return Object.fromEntries(pairs);
      problems[place] = `write each as ${schema["x-pairs"] ?? "name=value"}`;
      return undefined;
    }
    default:
      return text;
  }
}

/** The place in the form of what a JSON pointer names; null where no field shows it. */
export function placeOf(schema: Schema, draft: Draft, pointer: readonly string[], place: string): string | null {
  const [part, ...rest] = pointer;
  const shape = shapeOf(schema);
  if (shape === "group") {
    const option = part === undefined ? undefined : schema.properties?.[part];
    const fields = draft as Fields;
    if (part === undefined || option === undefined || !applies(schema, part, fields)) return null;
    return placeOf(option, fields[part] ?? "", rest, `${place}.${part}`);
  }
  if (part === undefined || (shape !== "rows" && shape !== "named")) return place;
  const rows = draft as readonly Row[];
  const at = shape === "named" ? rows.findIndex(({ name }) => name.trim() === part) : Number(part);
  const row = rows[at];
  if (row === undefined) return place;
  return placeOf({ ...memberOf(schema), type: "object" }, row.fields, rest, `${place}.${at}.fields`) ?? place;
}
