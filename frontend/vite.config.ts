import { readFile } from "node:fs/promises";

import react from "@vitejs/plugin-react";
import type { Plugin } from "vite";
import { defineConfig } from "vitest/config";

/**
 * `npm run dev:mock`: the pages against made-up answers, without a server; in mode `extreme` with the longest
 * names and numbers. Never part of a build.
 */
function mockApi(isExtreme: boolean): Plugin {
  return {
    name: "tidegate-mock-api",
    apply: "serve",
    async configureServer(server) {
      const { mockMiddleware } = await import("./mock/middleware.ts");
      server.middlewares.use(mockMiddleware(isExtreme));
    },
  };
}

function isMocked(mode: string): boolean {
  return mode === "mock" || mode === "extreme";
}

/** The address of each route in the router's source. The path of a child goes on from that of its parent. */
function addressesIn(router: string): string[] {
  const addresses = new Map<string, string>();
  for (const [, name = "", parent = "", path = ""] of router.matchAll(
    /^const (\w+) = createRoute\(\{\n {2}getParentRoute: \(\) => (\w+),\n {2}path: "([^"]*)"/gm,
  )) {
    // What no other route matches is a page that does not exist.
    if (path === "$") continue;
    const address = `${addresses.get(parent) ?? ""}/${path}`.replace(/\/+/g, "/");
    addresses.set(name, address === "/" ? address : address.replace(/\/$/, ""));
  }
  return [...new Set(addresses.values())];
}

/** Lists the addresses of pages, so that the server answers 404 at every other one. */
function listRoutes(): Plugin {
  return {
    name: "tidegate-list-routes",
    apply: "build",
    async generateBundle() {
      const router = await readFile(new URL("src/shell/router.tsx", import.meta.url), "utf-8");
      this.emitFile({ type: "asset", fileName: "routes.json", source: JSON.stringify(addressesIn(router)) });
    },
  };
}

/** Where the portal answers; `make dev` says which port it has. */
const portal = `127.0.0.1:${process.env.TIDEGATE_PORT ?? "8000"}`;

export default defineConfig(({ command, mode }) => ({
  // Django serves the built files under /static/ and index.html at every page address.
  base: command === "build" ? "/static/" : "/",
  plugins: [react(), listRoutes(), ...(isMocked(mode) ? [mockApi(mode === "extreme")] : [])],
  build: { target: "es2022", cssCodeSplit: true, modulePreload: { polyfill: false } },
  server: {
    host: "127.0.0.1",
    // The guide shows files of docs/.
    fs: { allow: [".."] },
    ...(isMocked(mode)
      ? {}
      : {
          proxy: {
            "/api": `http://${portal}`,
            "/ws": { target: `ws://${portal}`, ws: true },
          },
        }),
  },
  test: {
    environment: "jsdom",
    setupFiles: ["src/test/setup.ts"],
    css: false,
    restoreMocks: true,
    unstubGlobals: true,
    testTimeout: 120_000,
    // Vitest would leave a core idle, half of a small machine.
    maxWorkers: "100%",
  },
}));
