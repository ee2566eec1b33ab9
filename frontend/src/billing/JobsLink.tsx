import { Link } from "@tanstack/react-router";

import type { ChargeClass, Session } from "../api/types";
import { may } from "../session/access";
import { isOfJobs, TIMES } from "./dimensions";
import type { GroupedReport, GroupRow, Narrowed } from "./groupQueries";
import { USAGE_CLASSES, type ChargebackJobsSearch } from "./search";

/** A number with the jobs behind it; plain text where no list of jobs makes it. */
export function JobsLink({
  behind,
  isEmpty,
  usage,
  children,
}: {
  behind: ChargebackJobsSearch | null;
  isEmpty: boolean;
  usage?: ChargeClass | undefined;
  children: string;
}) {
  if (behind === null) return children;
  if (isEmpty) return <span className="faint">{children}</span>;
  return (
    <Link to="/chargeback/jobs" search={{ ...behind, usage: usage ?? behind.usage }} aria-label={`${children}: the jobs behind it`}>
      {children}
    </Link>
  );
}

/** The only node whose costs the session may see; undefined for several, and for all of them. */
function onlyNode(session: Session): string | undefined {
  const granted = Object.entries(session.permissions).filter(([, permissions]) => permissions.includes("view_costs"));
  return granted.length === 1 && granted[0]?.[0] ? granted[0][0] : undefined;
}

/** What the list of jobs behind a row is of; null where the reader may not ask for it, or no node covers it. */
export function jobsOf(
  report: Pick<GroupedReport, "start" | "end" | "as_of" | "by" | "buckets" | "by_currency">,
  row: Pick<GroupRow, "keys">,
  session: Session,
  asked: Pick<Narrowed, "node" | "pool" | "user" | "usage_class">,
): ChargebackJobsSearch | null {
  const { keys } = row;
  // A commitment has no user, cluster, class and type.
  if (keys.department === "" || report.by.some((name) => isOfJobs(name) && keys[name]?.startsWith("("))) return null;
  const organizations = report.by_currency.flatMap(({ organizations }) => organizations);
  const nodes = [
    asked.node,
    keys.organization,
    keys.department,
    keys.team,
    onlyNode(session) ?? (organizations.length === 1 ? organizations[0] : undefined),
  ];
  const node = nodes.filter((each) => each !== undefined).sort((a, b) => b.split("/").length - a.split("/").length)[0];
  if (node === undefined || !may(session, "view_costs", node)) return null;
  const time = TIMES.find((each) => report.by.includes(each));
  const bucket = time && report.buckets.find(({ label }) => label === keys[time]);
  return {
    start: bucket?.start ?? report.start,
    end: bucket?.end ?? report.end,
    as_of: report.as_of,
    node,
    pool: keys.pool ?? asked.pool ?? undefined,
    user: keys.user ?? asked.user ?? undefined,
    cluster: keys.cluster,
    priority: keys.priority_class,
    type: keys.job_type,
    centre: keys.cost_centre,
    project: keys.project_code,
    usage: USAGE_CLASSES.find((each) => each === (keys.usage_class ?? asked.usage_class)),
  };
}
