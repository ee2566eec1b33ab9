import type { ReactNode } from "react";

import { Card } from "./Card";
import { Lines } from "./states";
import { usePageTitle } from "./usePageTitle";

/** A page: its name in the tab and as the heading, one sentence about it, and what can be done at its top right. */
export function Page({
  title,
  heading = title,
  lead,
  actions,
  up,
  children,
}: {
  /** Plain text for the browser's tab and history. */
  title: string;
  /** Where the heading says more than the tab: pills, a time. */
  heading?: ReactNode;
  /** One short sentence. */
  lead?: ReactNode;
  /** Buttons and links at the top right. */
  actions?: ReactNode;
  /** A link to the list that the page belongs to. */
  up?: ReactNode;
  children: ReactNode;
}) {
  usePageTitle(title);
  const head = (
    <>
      <h1>{heading}</h1>
      {lead !== undefined && <p className="sub">{lead}</p>}
    </>
  );
  return (
    <>
      {up !== undefined && <p className="small">{up}</p>}
      {actions ? (
        <div className="spread">
          <div>{head}</div>
          {actions}
        </div>
      ) : (
        head
      )}
      {children}
    </>
  );
}

/** In place of a page that is not there, or not for the reader: what is wrong, and a way on. */
export function NoPage({ title, heading = title, children }: { title: string; heading?: string; children: ReactNode }) {
  usePageTitle(title);
  return (
    <Card className="empty">
      <h1>{heading}</h1>
      {children}
    </Card>
  );
}

/** In place of a page of one thing while that is fetched. */
export function PageLoading({ title, label, lines = 8 }: { title: string; label: string; lines?: number }) {
  usePageTitle(title);
  return (
    <Card>
      <Lines count={lines} label={label} />
    </Card>
  );
}
