import { useLayoutEffect, useRef, useState } from "react";

import { formatClock, formatCount, formatExact } from "../ui/units";
import { placesOf, type LogLine, type Match } from "./logLines";

/** As in log.css: each line has one row. */
const ROW_PX = 20;
const HEIGHT_PX = 420;
/** Rows above and below the visible ones. */
const SPARE_ROWS = 20;
const NEAR_END_PX = 40;
/** Where a match begins after a jump, from the left edge. */
const MARGIN_PX = 80;

/** Lines of a log, of which only the visible ones are in the page. Follows the end while it is in sight. */
export function LogText({
  name,
  lines,
  sought,
  current,
  showsStream,
  empty,
}: {
  name: string;
  lines: readonly LogLine[];
  sought: string;
  /** The match that was jumped to. */
  current: Match | null;
  showsStream: boolean;
  empty: string;
}) {
  const box = useRef<HTMLDivElement>(null);
  const currentMark = useRef<HTMLElement>(null);
  const isFollowing = useRef(true);
  const [top, setTop] = useState(0);

  useLayoutEffect(() => {
    const element = box.current;
    if (element && isFollowing.current) element.scrollTop = element.scrollHeight;
  }, [lines]);
  useLayoutEffect(() => {
    const element = box.current;
    if (!element || current === null) return;
    isFollowing.current = false;
    element.scrollTop = current.line * ROW_PX - HEIGHT_PX / 2;
    setTop(element.scrollTop);
  }, [current]);
  useLayoutEffect(() => {
    const element = box.current;
    const mark = currentMark.current;
    if (!element || !mark) return;
    const isVisible = mark.offsetLeft >= element.scrollLeft && mark.offsetLeft < element.scrollLeft + element.clientWidth;
    if (!isVisible) element.scrollLeft = mark.offsetLeft - MARGIN_PX;
  }, [current, top]);

  const first = Math.max(0, Math.floor(top / ROW_PX) - SPARE_ROWS);
  const shown = lines.slice(first, first + HEIGHT_PX / ROW_PX + 2 * SPARE_ROWS);
  const now = new Date();
  return (
    <div
      ref={box}
      className="log"
      tabIndex={0}
      role="log"
      aria-live="off"
      aria-label={name}
      onScroll={({ currentTarget: at }) => {
        isFollowing.current = at.scrollHeight - at.scrollTop - at.clientHeight < NEAR_END_PX;
        setTop(at.scrollTop);
      }}
    >
      {lines.length === 0 ? (
        <span className="faint">{empty}</span>
      ) : (
        <div style={{ height: lines.length * ROW_PX }}>
          <div className="rows-shown" style={{ transform: `translateY(${first * ROW_PX}px)` }}>
            {shown.map((line, i) => (
              <div key={first + i} className={`line ${line.stream}`}>
                {showsStream && <span className="stream">{line.stream === "stderr" ? "err" : "out"}</span>}
                {line.at !== null && (
                  <time dateTime={line.at} title={formatExact(new Date(line.at))}>
                    {formatClock(new Date(line.at), now)}
                  </time>
                )}
                <span>
                  <Marked
                    text={line.text}
                    sought={sought}
                    current={current?.line === first + i ? current.start : null}
                    markRef={currentMark}
                  />
                  {line.cutChars > 0 && <span className="faint"> … {formatCount(line.cutChars)} more characters</span>}
                  {"\n"}
                </span>
              </div>
            ))}
          </div>
        </div>
      )}
    </div>
  );
}

/** A text with all places of what is sought. */
function Marked({
  text,
  sought,
  current,
  markRef,
}: {
  text: string;
  sought: string;
  current: number | null;
  markRef: React.RefObject<HTMLElement | null>;
}) {
  const wanted = sought.toLowerCase();
  if (wanted === "") return text;
  const parts: React.ReactNode[] = [];
  let end = 0;
  for (const start of placesOf(text, wanted)) {
    parts.push(text.slice(end, start));
    end = start + wanted.length;
    const isCurrent = start === current;
    parts.push(
      <mark key={start} ref={isCurrent ? markRef : undefined} className={isCurrent ? "current" : undefined}>
        {text.slice(start, end)}
      </mark>,
    );
  }
  parts.push(text.slice(end));
  return parts;
}
