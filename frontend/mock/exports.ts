/** Exported files: one of each state. */
import type { components } from "../src/api/schema";
import type { ExportPolicy } from "../src/api/types";
import type { MockAnswer, MockRequest } from "./http.ts";

type Export = components["schemas"]["Export"];

export function anExport(changes: Partial<Export> = {}): Export {
  return {
    id: "01a1fd00-0000-7000-8000-0000000000e1",
    dataset: "charges",
    format: "csv",
    node: "ai-company",
    pool: null,
    start: "2026-10-01T00:00:00Z",
    end: "2026-11-01T00:00:00Z",
    as_of: "2026-11-21T14:00:00Z",
    state: "queued",
    progress_permille: 0,
    message: "",
    requested_by: "fiona@ai-company",
    created_at: "2026-11-21T14:00:00Z",
    ended_at: null,
    file_name: "charges-ai-company-20261001-20261101.csv",
    removed_at: null,
    manifest: null,
    ...changes,
  };
}

export function theExports(): Export[] {
  const file = "charges-ai-company-20261001-20261101.parquet";
  return [
    anExport(),
    anExport({ id: "e2", state: "running", progress_permille: 345 }),
    anExport({
      id: "e3",
      format: "parquet",
      state: "done",
      progress_permille: 1_000,
      ended_at: "2026-11-21T13:00:09Z",
      file_name: file,
      manifest: {
        manifest_version: 1,
        export: "e3",
        dataset: "charges",
        format: "parquet",
        file,
        size_bytes: 48_123_456,
        sha256: "0".repeat(64),
        rows: 1_234_567,
        sums: [],
        columns: [],
        node: "ai-company",
        pool: null,
        period: { start: "2026-10-01T00:00:00Z", end: "2026-11-01T00:00:00Z", as_of: "2026-11-21T13:00:00Z" },
        users: "names",
        correction_style: "accounting",
        created_at: "2026-11-21T13:00:09Z",
      },
    }),
    anExport({
      id: "e5",
      state: "done",
      progress_permille: 1_000,
      ended_at: "2026-10-02T13:00:09Z",
      removed_at: "2026-11-01T13:00:00Z",
      file_name: "charges-ai-company-20260901-20261001.csv",
    }),
    anExport({
      id: "e4",
      format: "xlsx",
      state: "failed",
      message: "A spreadsheet has at most 1,048,575 rows. Choose CSV or Parquet, or a shorter period.",
      file_name: "charges-ai-company-20261001-20261101.xlsx",
    }),
  ];
}

/** Pseudonyms, as fiona chose; a change is answered, but not remembered. */
export function exportPolicy({ method, body }: MockRequest): MockAnswer {
  const policy: ExportPolicy = {
    organization: "ai-company",
    users: "pseudonyms",
    changed_by: "fiona@ai-company",
    changed_at: "2026-11-20T12:00:00Z",
    version: 3,
  };
  const change = method === "PATCH" ? (body as Pick<ExportPolicy, "users">) : {};
  return { status: 200, body: { ...policy, ...change } };
}
