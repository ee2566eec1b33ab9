import type { QuotaPush, QuotaPushChange, QuotaPushSummary } from "../api/types";

export type PushKind = QuotaPush["kind"];

/** What a cluster has and what it should have, by setting. */
export type Sides = Pick<QuotaPushChange, "before" | "after">;

/** What was asked for, as people say it. */
export const PUSH_WORDS: Record<PushKind, string> = {
  check: "Compared",
  dry_run: "Dry run",
  push: "Pushed",
  accept: "Accepted",
};

/** How a request stands, in one word and a number. */
export function outcomeOf(push: QuotaPushSummary): { words: string; tone: "run" | "bad" | "wait" | "" } {
  if (push.status === "waiting") return { words: "waits for the cluster", tone: "wait" };
  if (push.status === "failed") return { words: "failed", tone: "bad" };
  if (push.change_count === 0) return { words: "no difference", tone: "run" };
  const differences = `${push.change_count} ${push.change_count === 1 ? "difference" : "differences"}`;
  if (push.kind === "push" && push.error) return { words: "not all changed", tone: "wait" };
  if (push.kind === "push") return { words: `${push.change_count} changed`, tone: "run" };
  if (push.kind === "accept") return { words: `${differences} accepted`, tone: "" };
  return { words: differences, tone: "wait" };
}

/** Did the cluster refuse this change? */
export function isRefused(change: QuotaPushChange): boolean {
  return change.result.startsWith("refused");
}

/** Kinds of objects on a cluster, by the first words of a subject. */
export type SubjectNames = Readonly<Record<string, string>>;

/** "cluster queue tg-12ab (ai-company/nlp)" in its parts; what is no such text is one name. */
export function subjectParts(subject: string, names: SubjectNames): { thing: string; name: string; path: string } {
  const thing = Object.keys(names)
    .filter((each) => subject.startsWith(`${each} `))
    .sort((a, b) => b.length - a.length)[0];
  if (thing === undefined) return { thing: "", name: subject, path: "" };
  const [name = "", path = ""] = subject.slice(thing.length + 1).replace(/\)$/, "").split(" (");
  return { thing: names[thing] ?? thing, name, path };
}

/** Settings that are another thing's name: without one there is none, and not no limit. */
const REFERENCES = new Set(["parent", "path", "topology"]);

/** A setting of a thing on a cluster as text; null is "no limit". */
export function settingText(value: unknown): string {
  if (value === null || value === undefined) return "no limit";
  if (Array.isArray(value)) return value.length === 0 ? "none" : value.map(String).join(", ");
  if (typeof value === "object") {
    return Object.entries(value)
      .map(([name, each]) => `${name} ${settingText(each)}`)
      .join(", ");
  }
  return typeof value === "string" ? value || "none" : JSON.stringify(value);
}

/** Name, before and after of every setting that a change names; what is equal on both sides is left out. */
export function settingsOf({ before, after }: Sides): { name: string; before: string; after: string }[] {
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])].sort();
  const text = (name: string, settings: Sides["before"]) => {
    if (!(name in settings)) return "–";
    return REFERENCES.has(name) ? settingText(settings[name] ?? "") : settingText(settings[name]);
  };
  return names
    .map((name) => ({
      name: name.replaceAll("_", " "),
      before: text(name, before),
      after: text(name, after),
    }))
    .filter((setting) => setting.before !== setting.after);
}
