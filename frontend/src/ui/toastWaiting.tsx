import type { WaitsForSecondPerson } from "../api/client";
import { toastToDo } from "./toast";

/** Tells that a change waits for a second person, with a link to its request. */
export function toastWaiting(waiting: WaitsForSecondPerson): void {
  toastToDo(
    waiting.problem.title,
    <>
      {waiting.message} <a href={`/requests?view=mine&request=${waiting.request}`}>Open the request</a>
    </>,
  );
}
