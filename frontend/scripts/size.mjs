// Budget of what a first visit downloads: the entry chunk, everything it imports statically, and its CSS.
import { readFileSync } from "node:fs";
import { gzipSync } from "node:zlib";

const BUDGET_KB = { js: 260, css: 40 };
const dist = new URL("../dist/", import.meta.url);
const html = readFileSync(new URL("index.html", dist), "utf8");
const initial = [...html.matchAll(/(?:src|href)="\/static\/([^"]+\.(js|css))"/g)];
const total = { js: 0, css: 0 };
for (const [, path, kind] of initial) {
  const bytes = gzipSync(readFileSync(new URL(path, dist))).length;
  total[kind] += bytes;
  console.log(`${(bytes / 1000).toFixed(1).padStart(7)} kB  ${path}`);
}
let failed = false;
for (const kind of ["js", "css"]) {
  const kb = total[kind] / 1000;
  const isOver = kb > BUDGET_KB[kind];
  failed ||= isOver;
  console.log(`${kind}: ${kb.toFixed(1)} kB gzip of ${BUDGET_KB[kind]} kB ${isOver ? "- OVER BUDGET" : "ok"}`);
}
if (initial.length === 0) {
  console.error("dist/index.html names no files: run `npm run build` first");
  failed = true;
}
process.exit(failed ? 1 : 0);
