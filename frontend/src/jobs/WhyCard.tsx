import { Link } from "@tanstack/react-router";

import type { Explanation } from "../api/types";
import { useNowMs } from "../ui/now";
import { Countdown, Time } from "../ui/Time";
import { formatDuration, formatGpus } from "../ui/units";
import { codeWords, lastPart, reclaimDeadline } from "./words";

/** "Why is it waiting?": the sentence first, then the numbers, then who gives back and when. */
export function WhyCard({ explanation, title = "Why is it waiting?" }: { explanation: Explanation; title?: string }) {
  const deadline = reclaimDeadline(explanation);
  const numbers = Object.entries(explanation.numbers).filter(
    (entry): entry is [string, string | number | boolean] => isShown(entry[1]),
  );
  return (
    <section className="card mark" aria-label={title}>
      <h2>{title}</h2>
      <p className="sentence">
        {explanation.sentence}
        {deadline && (
          <>
            {" "}
            At the latest in <Countdown until={deadline} />.
          </>
        )}
      </p>
      <div className="scroll-x">
        <table className="evidence">
          <thead>
            <tr>
              <th scope="col">Cause</th>
              {numbers.map(([name]) => (
                <th key={name} scope="col">
                  {numberLabel(name)}
                </th>
              ))}
              {explanation.node && <th scope="col">Decided at</th>}
              <th scope="col">Jobs ahead</th>
            </tr>
          </thead>
          <tbody>
            <tr>
              <td>{codeWords(explanation.code)}</td>
              {numbers.map(([name, value]) => (
                <td key={name}>{numberText(name, value)}</td>
              ))}
              {explanation.node && <td title={explanation.node}>{lastPart(explanation.node)}</td>}
              <td>{explanation.jobs_ahead === 0 ? "none" : explanation.jobs_ahead}</td>
            </tr>
          </tbody>
        </table>
      </div>
      {explanation.victims.length > 0 && <GivingBack explanation={explanation} />}
      <h2 className="gap">When will it start?</h2>
      <EstimatedStart explanation={explanation} />
      <p className="small faint">
        Decided <Time at={explanation.as_of} />
      </p>
    </section>
  );
}

function GivingBack({ explanation }: { explanation: Explanation }) {
  const total = explanation.victims.reduce((sum, victim) => sum + victim.mgpu, 0);
  return (
    <>
      <h2 className="gap">Who gives back</h2>
      <table>
        <thead>
          <tr>
            <th scope="col">Job</th>
            <th scope="col" className="hide">
              Team
            </th>
            <th scope="col" className="n">
              GPUs
            </th>
            <th scope="col" className="hide">
              On notice since
            </th>
            <th scope="col" className="n">
              Left
            </th>
          </tr>
        </thead>
        <tbody>
          {explanation.victims.map((victim) => (
            <tr key={victim.job}>
              <th scope="row">
                <Link to="/jobs/$jobId" params={{ jobId: victim.job }}>
                  {victim.name}
                </Link>
              </th>
              <td className="hide" title={victim.team}>
                {lastPart(victim.team)}
              </td>
              <td className="n">{formatGpus(victim.mgpu)}</td>
              <td className="hide">{victim.notice_at ? <Time at={victim.notice_at} show="clock" /> : "next decision"}</td>
              <td className="n">{victim.grace_until ? <Countdown until={victim.grace_until} /> : "–"}</td>
            </tr>
          ))}
        </tbody>
        <tfoot>
          <tr>
            <th scope="row">Coming back</th>
            <td className="hide" />
            <td className="n">{formatGpus(total)}</td>
            <td className="hide" />
            <td />
          </tr>
        </tfoot>
      </table>
    </>
  );
}

/** A range with its method, never a bare moment; unknown is said as unknown. */
function EstimatedStart({ explanation }: { explanation: Explanation }) {
  const now = useNowMs();
  const estimate = explanation.estimated_start;
  if (estimate === null || (estimate.earliest === null && estimate.latest === null)) {
    return <p>Unknown: nothing that runs now says when it ends.</p>;
  }
  const { earliest, latest, method } = estimate;
  const isPast = latest !== null && new Date(latest).getTime() < now;
  return (
    <p>
      {earliest !== null && latest !== null ? (
        <>
          Between <Time at={earliest} show="clock" /> and <Time at={latest} show="clock" />
        </>
      ) : earliest !== null ? (
        <>
          Not before <Time at={earliest} show="clock" />
        </>
      ) : (
        latest !== null && (
          <>
            Until <Time at={latest} show="clock" />
          </>
        )
      )}
      {latest !== null && !isPast && (
        <>
          {" "}
          (<Time at={latest} /> at the latest)
        </>
      )}
      {isPast && <span className="dim"> · that has passed; the next decision says anew</span>}
      <span className="faint"> · {method}</span>
    </p>
  );
}

function isShown(value: unknown): boolean {
  return typeof value === "number" || typeof value === "string" || typeof value === "boolean";
}

const NUMBER_LABELS: Record<string, string> = {
  need_mgpu: "Needs",
  free_mgpu: "Free now",
  available_mgpu: "Quota lets start",
  guaranteed_mgpu: "Guaranteed",
  in_use_mgpu: "In use",
  borrowed_mgpu: "Borrowed",
  coming_back_mgpu: "Coming back",
};

function numberLabel(name: string): string {
  const known = NUMBER_LABELS[name];
  if (known !== undefined) return known;
  const words = name.replace(/_(?:mgpu|s)$/, "").replaceAll("_", " ");
  return words.charAt(0).toUpperCase() + words.slice(1);
}

function numberText(name: string, value: string | number | boolean): string {
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value === "number" && name.endsWith("_mgpu")) return formatGpus(value);
  if (typeof value === "number" && name.endsWith("_s")) return formatDuration(value);
  return String(value);
}
