/**
 * `node mock/built.ts PORT`: the built pages of `dist` with made-up answers that have the longest names and
 * numbers, for tests in a browser. A page is a dozen files here, and hundreds at Vite's server.
 */
import { createReadStream, existsSync } from "node:fs";
import { createServer, type ServerResponse } from "node:http";
import { extname } from "node:path";

import { mockMiddleware } from "./middleware.ts";

const dist = new URL("../dist/", import.meta.url);
const types: Record<string, string> = {
  ".css": "text/css",
  ".html": "text/html",
  ".js": "text/javascript",
  ".svg": "image/svg+xml",
  ".woff2": "font/woff2",
};

/** Every address that is no file is a page; Django decides alike. */
function sendFile(pathname: string, response: ServerResponse): void {
  const isFile = pathname.startsWith("/static/");
  const file = new URL(isFile ? `.${pathname.slice("/static".length)}` : "index.html", dist);
  if (!existsSync(file)) {
    response.writeHead(404).end();
    return;
  }
  response.writeHead(200, { "Content-Type": types[extname(file.pathname)] ?? "application/octet-stream" });
  createReadStream(file).pipe(response);
}

const answer = mockMiddleware(true);
createServer((request, response) => {
  answer(request, response, () => {
    sendFile(new URL(request.url ?? "/", "http://localhost").pathname, response);
  });
}).listen(Number(process.argv[2]), "127.0.0.1");
