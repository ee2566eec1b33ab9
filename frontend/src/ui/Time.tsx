import { useNowMs } from "./now";
import { formatClock, formatCountdown, formatExact, formatRelative, zoneName } from "./units";

/** A moment. Relative words tick; the exact local time and its zone are in the title. */
export function Time({
  at,
  show = "relative",
}: {
  at: string;
  show?: "relative" | "exact" | "clock" | "both";
}) {
  const now = useNowMs();
  const moment = new Date(at);
  const exact = formatExact(moment);
  const relative = formatRelative(moment, new Date(now));
  const text =
    show === "exact"
      ? exact
      : show === "clock"
        ? formatClock(moment, new Date(now))
        : show === "both"
          ? `${relative} · ${exact}`
          : relative;
  return (
    <time dateTime={at} title={`${exact} ${zoneName(moment)} · ${relative}`}>
      {text}
    </time>
  );
}

/** Time left until a deadline as m:ss, ticking. Says 0:00 when it has passed. */
export function Countdown({ until }: { until: string }) {
  const now = useNowMs();
  const moment = new Date(until);
  const seconds = (moment.getTime() - now) / 1000;
  return (
    <time
      className="mono"
      dateTime={until}
      role="timer"
      aria-live="off"
      title={`${formatExact(moment)} ${zoneName(moment)}`}
    >
      {formatCountdown(seconds)}
    </time>
  );
}
