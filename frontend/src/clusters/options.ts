/** Options of a cluster as fields of a form: what is empty is left to the server's own default. */

export interface OptionField {
  name: string;
  label: string;
  help: string;
  placeholder?: string;
  isRequired?: boolean;
  isNumber?: boolean;
  /** Words with spaces between them. */
  isList?: boolean;
}

export interface Reading {
  options: Record<string, unknown>;
  problems: Record<string, string>;
}

/** The options; or by field what cannot be sent. The server checks the rest. */
export function readFields(fields: readonly OptionField[], texts: Readonly<Record<string, string>>): Reading {
  const options: Record<string, unknown> = {};
  const problems: Record<string, string> = {};
  for (const { name, isRequired, isNumber, isList } of fields) {
    const text = (texts[name] ?? "").trim();
    if (text === "") {
      if (isRequired) problems[name] = "is needed";
    } else if (isList) {
      options[name] = text.split(/[\s,]+/).filter((word) => word !== "");
    } else if (!isNumber) {
      options[name] = text;
    } else if (/^\d{1,15}$/.test(text)) {
      options[name] = Number(text);
    } else {
      problems[name] = "must be a whole number";
    }
  }
  return { options, problems };
}

/** The texts of fields that show these options. */
export function textsOf(fields: readonly OptionField[], options: Readonly<Record<string, unknown>>): Record<string, string> {
  const texts: Record<string, string> = {};
  for (const { name } of fields) {
    const value = options[name];
    if (Array.isArray(value)) texts[name] = value.join(" ");
    else if (typeof value === "string" || typeof value === "number") texts[name] = String(value);
  }
  return texts;
}

/** Which field a sentence of the server is about: "option url must be ..." -> "url". */
export function fieldOf(sentence: string): string | null {
  return /\boption ([a-z_]+)/.exec(sentence)?.[1] ?? null;
}
