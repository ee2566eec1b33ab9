/** Notifications of the browser when a job starts: a choice of this browser, with its permission. */

const KEY = "tidegate.tells-of-starts";

const isSupported = () => "Notification" in window;

/** True if this browser tells of starts. */
export const isAllowed = () =>
  isSupported() && Notification.permission === "granted" && localStorage.getItem(KEY) === "yes";

/** The reason for which the browser cannot tell of starts, or null. */
export function obstacle(): string | null {
  if (!isSupported()) return "This browser has no notifications, or the portal is not served by HTTPS.";
  if (Notification.permission === "denied") return "Notifications are blocked. Allow them in the settings of the browser.";
  return null;
}

/** Asks the person for the permission, where that is needed. Returns whether the browser tells of starts now. */
export async function allow(): Promise<boolean> {
  if (isSupported() && (await Notification.requestPermission()) === "granted") localStorage.setItem(KEY, "yes");
  return isAllowed();
}

export function forbid(): void {
  localStorage.removeItem(KEY);
}
