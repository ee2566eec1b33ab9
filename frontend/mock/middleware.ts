import type { IncomingMessage, ServerResponse } from "node:http";

import { theAnnouncements } from "./announcements.ts";
import { aCompany, answer } from "./answer.ts";
import { anExtremeCompany, extremeAnswer } from "./extreme.ts";

/** Answers /api/ inside Vite's dev server; with long names and numbers where `isExtreme`. */
export function mockMiddleware(isExtreme: boolean) {
  const [company, answers] = isExtreme ? [anExtremeCompany(), extremeAnswer] : [aCompany({ announcements: theAnnouncements() }), answer];
  return (request: IncomingMessage, response: ServerResponse, next: () => void): void => {
    const url = new URL(request.url ?? "/", "http://localhost");
    if (!url.pathname.startsWith("/api/")) {
      next();
      return;
    }
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      const text = Buffer.concat(chunks).toString();
      const { status, body, headers = {} } = answers(company, {
        method: request.method ?? "GET",
        path: url.pathname,
        query: url.searchParams,
        headers: request.headers as Record<string, string | undefined>,
        body: text === "" ? null : JSON.parse(text),
      });
      response.statusCode = status;
      for (const [name, value] of Object.entries(headers)) response.setHeader(name, value);
      response.setHeader("Content-Type", status < 400 ? "application/json" : "application/problem+json");
      response.end(body === undefined ? "" : JSON.stringify(body));
    });
  };
}
