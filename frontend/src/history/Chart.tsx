import { useComputedColorScheme } from "@mantine/core";
import { useEffect, useRef } from "react";

import { coloursOf, type Colours } from "./option";

/** Labels at the axis of a chart: one for each of so many pixels. */
const LABEL_PX = 90;

/** A chart is drawn once it is so near to the view. */
const NEAR_PX = 400;

/** Call `begin` once an element is in view or near to it. Returns the function that gives that up. */
function whenNear(element: Element, begin: () => void): () => void {
  if (typeof IntersectionObserver === "undefined") {
    begin();
    return () => undefined;
  }
  const observer = new IntersectionObserver(
    (entries) => {
      if (!entries.some(({ isIntersecting }) => isIntersecting)) return;
      observer.disconnect();
      begin();
    },
    { rootMargin: `${String(NEAR_PX)}px` },
  );
  observer.observe(element);
  return () => observer.disconnect();
}

/** A chart, drawn once ECharts is there and a reader comes near. Its sentence and its table say the same to those who do not see it. */
export function Chart({
  label,
  className,
  option,
}: {
  label: string;
  className: string;
  /** The chart for the colours of the page, and for how many labels fit. */
  option: (colours: Colours, labels: number) => Record<string, unknown>;
}) {
  const place = useRef<HTMLDivElement>(null);
  const scheme = useComputedColorScheme("light");
  useEffect(() => {
    const element = place.current;
    if (element === null) return;
    let isOver = false;
    let drawn: { resize: () => void; end: () => void } | undefined;
    const sizes = typeof ResizeObserver === "undefined" ? undefined : new ResizeObserver(() => drawn?.resize());
    const begin = () => {
      void import("./drawing").then(({ draw }) => {
        if (isOver || drawn !== undefined) return;
        const labels = Math.max(2, Math.floor(element.clientWidth / LABEL_PX));
        drawn = draw(element, option(coloursOf(element), labels));
        sizes?.observe(element);
      });
    };
    const stopWaiting = whenNear(element, begin);
    window.addEventListener("beforeprint", begin);
    return () => {
      isOver = true;
      stopWaiting();
      window.removeEventListener("beforeprint", begin);
      sizes?.disconnect();
      drawn?.end();
    };
  }, [option, scheme]);
  return <div ref={place} className={className} role="img" aria-label={label} />;
}
