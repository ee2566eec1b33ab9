/** What the address of the audit log carries. */
import { textParam, timeParam, type RawSearch } from "../shell/search";

export interface AuditSearch {
  actor?: string;
  action?: string;
  object?: string;
  since?: string;
  until?: string;
}

export const auditSearch = (search: RawSearch): AuditSearch => ({
  actor: textParam(search, "actor"),
  action: textParam(search, "action"),
  object: textParam(search, "object"),
  since: timeParam(search, "since"),
  until: timeParam(search, "until"),
});
