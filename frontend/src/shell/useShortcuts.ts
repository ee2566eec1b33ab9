import { useNavigate } from "@tanstack/react-router";
import { useEffect } from "react";

const SEQUENCE_MS = 1200;

export const SHORTCUTS: readonly (readonly [keys: string, meaning: string])[] = [
  ["g h", "Home"],
  ["g j", "Jobs"],
  ["g s", "Submit"],
  ["g q", "Quotas"],
  ["g b", "Chargeback"],
  ["g c", "Clusters"],
  ["Ctrl K", "Go to a page, a job or a node"],
  ["/", "Search on this page"],
  ["?", "This list"],
];

const PAGES = {
  h: "/",
  j: "/jobs",
  s: "/submit",
  q: "/quotas",
  b: "/chargeback",
  c: "/clusters",
} as const;

function isTyping(target: EventTarget | null): boolean {
  return (
    target instanceof HTMLElement &&
    (target.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName))
  );
}

/** Two-key jumps, "/" to the page's search field and "?" for help, but not while somebody types; Ctrl+K at any time. */
export function useShortcuts(onHelp: () => void, onPalette: () => void): void {
  const navigate = useNavigate();
  useEffect(() => {
    let prefixAt = 0;
    const onKey = (event: KeyboardEvent) => {
      if ((event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey && event.key.toLowerCase() === "k") {
        event.preventDefault();
        onPalette();
        return;
      }
      if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
      const isSecond = Date.now() - prefixAt < SEQUENCE_MS;
      prefixAt = event.key === "g" ? Date.now() : 0;
      if (event.key === "?") onHelp();
      else if (event.key === "/") {
        const search = document.querySelector<HTMLInputElement>("[data-search]");
        if (search) {
          event.preventDefault();
          search.focus();
        }
      } else if (isSecond && event.key in PAGES) {
        void navigate({ to: PAGES[event.key as keyof typeof PAGES] });
      }
    };
    document.addEventListener("keydown", onKey);
    return () => document.removeEventListener("keydown", onKey);
  }, [navigate, onHelp, onPalette]);
}
