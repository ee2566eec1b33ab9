import { MantineProvider } from "@mantine/core";
import { Notifications } from "@mantine/notifications";
import { QueryClientProvider } from "@tanstack/react-query";
import { createMemoryHistory, RouterProvider } from "@tanstack/react-router";
import { render } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import type { ReactNode } from "react";
import { vi } from "vitest";

import { aCompany, answer, type Company } from "../../mock/answer.ts";
import type { MockAnswer, MockRequest } from "../../mock/http.ts";
import { createQueryClient } from "../api/queryClient";
import { createAppRouter } from "../shell/router";
import { theme } from "../ui/theme";

/** Answers a request in the place of the company, or undefined to let the company answer. */
export type Override = (request: MockRequest) => MockAnswer | undefined;

function Frame({ children }: { children: ReactNode }) {
  return (
    <MantineProvider theme={theme} env="test" withCssVariables={false} withGlobalClasses={false}>
      {children}
      <Notifications />
    </MantineProvider>
  );
}

/** A component by itself, without routes and server. */
export function show(children: ReactNode) {
  return { user: userEvent.setup(), ...render(<Frame>{children}</Frame>) };
}

class SilentSocket {
  onopen: (() => void) | null = null;
  onmessage: (() => void) | null = null;
  onclose: (() => void) | null = null;
  close(): void {
    this.onclose = null;
  }
}

/** The whole application at an address, against the company of the mock. */
export function open(address: string, { company = aCompany(), override }: { company?: Company; override?: Override } = {}) {
  const requests: MockRequest[] = [];
  vi.stubGlobal("WebSocket", SilentSocket);
  vi.stubGlobal("fetch", async (input: Request): Promise<Response> => {
    const url = new URL(input.url);
    const text = await input.text();
    const request: MockRequest = {
      method: input.method,
      path: url.pathname,
      query: url.searchParams,
      headers: Object.fromEntries(input.headers),
      body: text === "" ? null : JSON.parse(text),
    };
    requests.push(request);
    const { status, body, headers = {} } = override?.(request) ?? answer(company, request);
    return new Response(body === undefined ? null : JSON.stringify(body), {
      status,
      headers: { ...headers, "Content-Type": status < 400 ? "application/json" : "application/problem+json" },
    });
  });
  const queryClient = createQueryClient({ retries: false });
  const router = createAppRouter(queryClient, createMemoryHistory({ initialEntries: [address] }));
  const view = render(
    <Frame>
      <QueryClientProvider client={queryClient}>
        <RouterProvider router={router} />
      </QueryClientProvider>
    </Frame>,
  );
  return { user: userEvent.setup(), router, requests, queryClient, ...view };
}

/** What axe finds wrong, by rule; colours need a real browser and are left out. */
export async function accessibilityFaults(element: Element): Promise<string[]> {
  const axe = await import("axe-core");
  const result = await axe.default.run(element, { rules: { "color-contrast": { enabled: false } } });
  return result.violations.map(
    ({ id, nodes }) => `${id}: ${nodes.map((node) => node.html.slice(0, 120)).join(" | ")}`,
  );
}
