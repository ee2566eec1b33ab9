import { CORE_SCHEMA, dump, load } from "js-yaml";

import type { JobRequest } from "../api/types";
import { MAX_SCRIPT_BYTES } from "./draft";

/** The request in a text of YAML, or what is wrong with the text. A text without a team gets `team`. */
export function readYaml(text: string, team: string | null): { request: JobRequest | null; error?: string } {
  if (text.trim() === "") return { request: null, error: "There is no request yet." };
  if (new TextEncoder().encode(text).length > MAX_SCRIPT_BYTES) {
    return { request: null, error: "A request may have at most 1 MiB. Put data into files." };
  }
  let found: unknown;
  try {
    found = load(text, { schema: CORE_SCHEMA });
  } catch (error) {
    return { request: null, error: `This is not YAML: ${error instanceof Error ? error.message : "unreadable"}` };
  }
  if (typeof found !== "object" || found === null || Array.isArray(found)) {
    return { request: null, error: "Write the members of a job request, such as gpus: 8, one a line." };
  }
  if ("apiVersion" in found) {
    return { request: null, error: "This is a Kubernetes manifest. Paste it under Script or manifest." };
  }
  // The server checks each member, and names the wrong ones.
  const request = { ...(team === null ? {} : { team }), ...found } as JobRequest;
  if (typeof request.team !== "string") return { request: null, error: "Choose a team, or write team: in the text." };
  return { request };
}

/** A request as YAML, as `tidegate submit` reads it. */
export function yamlOf(request: Readonly<Record<string, unknown>>): string {
  return dump(request, { schema: CORE_SCHEMA, lineWidth: -1 });
}
