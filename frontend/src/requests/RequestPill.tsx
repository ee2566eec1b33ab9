import type { ChangeRequest } from "../api/types";
import { STATUS_TONES, STATUS_WORDS } from "./words";

/** The status of a request. */
export function RequestPill({ status }: { status: ChangeRequest["status"] }) {
  const tone = STATUS_TONES[status];
  return <span className={tone ? `pill ${tone}` : "pill"}>{STATUS_WORDS[status]}</span>;
}
