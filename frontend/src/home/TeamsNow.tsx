import { useQuery } from "@tanstack/react-query";

import { someJobsQuery } from "../api/queries";
import type { Quota } from "../api/types";
import { lastPart } from "../jobs/words";
import { QuotaBar, QuotaLegend } from "../quotas/QuotaBar";
import { commonScale, quotaUse } from "../quotas/use";
import { Card } from "../ui/Card";
import { Countdown } from "../ui/Time";
import { DEVICE_WORDS, formatCount, formatGpuCount, formatGpus, type Device } from "../ui/units";

const SHOWN = 100;

/** In a sentence what my teams use, and what is reclaimed from them. Of a single bar the picture, too. */
export function TeamsNow({ teams, scope }: { teams: readonly Quota[]; scope: string | undefined }) {
  const stopping = useQuery(someJobsQuery({ state: ["preempting"], ...(scope ? { team: scope } : {}) }, SHOWN));
  if (teams.length === 0) return null;
  const notices = stopping.data?.items ?? [];
  const isCut = stopping.data != null && stopping.data.next !== null;
  const [bar, ...others] = teams.map(quotaUse);
  const devices = [...new Set(teams.map(({ device }) => device))];
  return (
    <Card label="My teams now" tone={notices.length > 0 ? "warn" : undefined}>
      {devices.map((device) => {
        const leaving = notices.filter((job) => job.device === device);
        const graces = leaving.flatMap(({ current_attempt }) => current_attempt?.grace_until ?? []);
        const first = graces.sort()[0];
        return (
          <p key={device} className="sentence last">
            <UseSentence teams={teams.filter((team) => team.device === device)} device={device} />
            {leaving.length > 0 && (
              <>
                {isCut ? " At least " : " "}
                <b>{formatGpuCount(leaving.reduce((sum, job) => sum + job.mgpu, 0), device)}</b> of{" "}
                {leaving.length === 1 ? "1 job" : `${formatCount(leaving.length)} jobs`} are being reclaimed
                {first !== undefined && (
                  <>
                    , the first within <Countdown until={first} />
                  </>
                )}
                .
              </>
            )}
          </p>
        );
      })}
      {bar !== undefined && others.length === 0 && (
        <div className="more">
          <QuotaBar use={bar} scaleMgpu={commonScale([bar])} />
          <QuotaLegend />
        </div>
      )}
    </Card>
  );
}

function UseSentence({ teams, device }: { teams: readonly Quota[]; device: Device }) {
  const uses = teams.map(quotaUse);
  const sum = (of: (use: (typeof uses)[number]) => number) => uses.reduce((total, use) => total + of(use), 0);
  const guaranteed = sum((use) => use.guaranteedMgpu);
  const inside = sum((use) => use.inUseMgpu - use.borrowedMgpu);
  const borrowed = sum((use) => use.borrowedMgpu);
  const lent = sum((use) => use.lentMgpu);
  const names = new Set(teams.map(({ node }) => node));
  const [only] = names;
  const isOne = names.size === 1 && only !== undefined;
  return (
    <>
      {isOne ? lastPart(only) : `Your ${formatCount(names.size)} teams`} {isOne ? "uses" : "use"}{" "}
      <b>
        {inside === guaranteed && guaranteed > 0
          ? `all of ${isOne ? "its" : "their"} ${formatGpus(guaranteed)}`
          : `${formatGpus(inside)} of ${isOne ? "its" : "their"} ${formatGpus(guaranteed)}`}{" "}
        {DEVICE_WORDS[device]}
      </b>
      {borrowed > 0 && ` and ${formatGpus(borrowed)} borrowed ones`}
      {lent > 0 && `; ${formatGpus(lent)} are lent to others`}.
    </>
  );
}
