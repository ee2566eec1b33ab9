import { useEffect } from "react";

/**
 * Gives the focus back to what had it when the dialog was mounted. For a dialog that is open as long as it is
 * mounted: Mantine does so only where a mounted one closes.
 */
export function useReturnFocus(): void {
  useEffect(() => {
    const before = document.activeElement;
    return () => {
      if (before instanceof HTMLElement) before.focus({ preventScroll: true });
    };
  }, []);
}
