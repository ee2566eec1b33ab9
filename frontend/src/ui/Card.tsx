import type { ComponentProps } from "react";

/** What the line at a card's left edge says: a note, something to look at, a failure, a success. */
export type CardTone = "note" | "warn" | "bad" | "good";

const TONES: Record<CardTone, string> = { note: "mark", warn: "mark warn", bad: "mark bad", good: "mark good" };

/**
 * A framed part of a page. With a label it is a region that a screen reader lists by that name.
 * Every other property is that of the element.
 */
export function Card({
  label,
  tone,
  className,
  ...rest
}: { label?: string | undefined; tone?: CardTone | undefined } & Omit<ComponentProps<"section">, "aria-label">) {
  const classes = ["card", tone && TONES[tone], className].filter(Boolean).join(" ");
  if (label === undefined) return <div {...(rest as ComponentProps<"div">)} className={classes} />;
  return <section {...rest} className={classes} aria-label={label} />;
}
