/** What the address of the notices carries. */
import type { NoticeEvent } from "../api/types";
import { choiceParam, textParam, type RawSearch } from "../shell/search";
import { EVENTS } from "./words";

export interface NoticesSearch {
  event?: NoticeEvent;
  /** A kind of object and an id: "job/0193…". */
  object?: string;
  unread?: true;
}

export interface WebhooksSearch {
  /** The id of the webhook whose messages are shown. */
  webhook?: string;
}

export const webhooksSearch = (search: RawSearch): WebhooksSearch => ({ webhook: textParam(search, "webhook") });

export const noticesSearch = (search: RawSearch): NoticesSearch => ({
  event: choiceParam(search, "event", EVENTS),
  object: textParam(search, "object"),
  unread: search["unread"] === true || search["unread"] === "true" ? true : undefined,
});
