import { notifications } from "@mantine/notifications";
import type { ReactNode } from "react";

import { ApiError, WaitsForSecondPerson } from "../api/client";

const closeButtonProps = { "aria-label": "Close this message" };

/** A short word that something was done. */
export function toastDone(message: string): void {
  notifications.show({ message, withBorder: true, closeButtonProps });
}

/** What was done, and what is to be done after it; stays until it is closed. */
export function toastToDo(title: string, message: ReactNode): void {
  notifications.show({ title, message, withBorder: true, autoClose: false, closeButtonProps });
}

/** A refusal, in the API's own words. */
export function toastError(error: Error): void {
  // The query client tells of these, with a link.
  if (error instanceof WaitsForSecondPerson) return;
  notifications.show({
    title: error instanceof ApiError ? error.problem.title : "Something went wrong",
    message: error.message,
    color: "red",
    withBorder: true,
    autoClose: 10_000,
    closeButtonProps,
  });
}
