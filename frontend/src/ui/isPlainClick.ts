import type { MouseEvent } from "react";

/** Whether a click on a link opens it here, and not in a new tab or window. */
export const isPlainClick = (event: MouseEvent) =>
  event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey;
