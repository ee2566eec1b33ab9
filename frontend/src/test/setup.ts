import { notifications } from "@mantine/notifications";
import "@testing-library/jest-dom/vitest";
import { cleanup, configure } from "@testing-library/react";
import { afterEach, vi } from "vitest";

// Pages are loaded lazily, on machines that may be busy; a short message instead of the whole page.
configure({
  asyncUtilTimeout: 30_000,
  getElementError: (message) => new Error(message ?? "not found"),
});
afterEach(() => {
  cleanup();
  notifications.clean();
});

// jsdom has no canvas. Charts are on many pages, so no test draws one.
vi.mock("../history/drawing", () => ({ draw: () => ({ resize: () => undefined, end: () => undefined }) }));

// What jsdom lacks and the widgets ask for.
class NoResizeObserver {
  observe(): void {}
  unobserve(): void {}
  disconnect(): void {}
}
const mediaQuery = {
  matches: false,
  onchange: null,
  addEventListener: () => undefined,
  removeEventListener: () => undefined,
  dispatchEvent: () => false,
};
globalThis.ResizeObserver = NoResizeObserver;
// Heights of a list whose rows are drawn where they are in view: 20 of them.
const [ROW_PX, FRAME_PX] = [40, 800];
Object.defineProperties(HTMLElement.prototype, {
  offsetHeight: { configurable: true, get: (): number => ROW_PX },
  clientHeight: { configurable: true, get: (): number => FRAME_PX },
});
Object.assign(window, {
  matchMedia: (media: string) => ({ ...mediaQuery, media }),
  scrollTo: () => undefined,
});
Object.defineProperty(document, "fonts", {
  configurable: true,
  value: { addEventListener: () => undefined, removeEventListener: () => undefined },
});
Element.prototype.scrollIntoView = () => undefined;
HTMLCanvasElement.prototype.getContext = () => null;
