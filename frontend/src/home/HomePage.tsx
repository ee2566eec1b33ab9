import { Button } from "@mantine/core";
import { Link, useSearch } from "@tanstack/react-router";

import type { Session } from "../api/types";
import { may } from "../session/access";
import { useSession } from "../session/useSession";
import { Card } from "../ui/Card";
import { Page } from "../ui/Page";
import { Empty } from "../ui/states";
import { BudgetCard } from "./BudgetCard";
import { Costs } from "./Costs";
import { EntitlementCard } from "./EntitlementCard";
import { Fleet } from "./Fleet";
import { MyJobs } from "./MyJobs";
import { MyTeams, useMyTeams } from "./MyTeams";
import { Notices } from "./Notices";
import { PendingRequests } from "./PendingRequests";
import { SinceYesterday, Waste } from "./Since";
import { TeamJobs } from "./TeamJobs";
import { TeamsNow } from "./TeamsNow";
import { WaitingForDecision } from "./WaitingForDecision";
import "./home.css";

type Role = Session["grants"][number]["role"];

/** Roles whose holders look after the jobs of others. */
const LEADS: readonly Role[] = ["team_lead", "department_admin", "organization_admin", "platform_admin"];
/** Roles whose holders answer for costs. */
const ACCOUNTANTS: readonly Role[] = ["finance", "auditor", "organization_admin", "platform_admin"];

export function HomePage() {
  const session = useSession();
  const { scope } = useSearch({ from: "/shell" });
  const has = (roles: readonly Role[]) => session.grants.some(({ role }) => roles.includes(role));
  const isLead = has(LEADS) && may(session, "manage_jobs");
  const submits = may(session, "submit_jobs");
  const teams = useMyTeams(session, scope);
  const isOneTeam = isLead && teams.length === 1;
  const [only] = teams;
  const nodes = new Set(teams.map(({ node }) => node));
  const onlyNode = nodes.size === 1 ? only?.node : undefined;
  const hasCosts = may(session, "view_costs") && (!submits || has(ACCOUNTANTS));
  return (
    <Page
      title="Home"
      heading={`Hello, ${session.user.name || session.user.username}`}
      lead={session.user.organization?.name ?? "All organizations"}
      actions={
        isLead &&
        submits && (
          <div className="inline">
            <Button component={Link} to="/submit">
              Submit a job
            </Button>
            <Button
              variant="default"
              renderRoot={(props) => (
                <Link to="/requests" search={{ ask: "guarantee", ...(isOneTeam ? { node: only?.node, pool: only?.pool } : {}) }} {...props} />
              )}
            >
              Ask for more…
            </Button>
          </div>
        )
      }
    >
      <div className="rows">
        <Notices session={session} />
        {may(session, "manage_quota") && <WaitingForDecision />}
        {may(session, "manage_clusters") && <Fleet />}
        {isLead && <TeamsNow teams={teams} scope={scope} />}
        {isLead && (
          <div className="two">
            <div className="rows">
              <TeamJobs scope={scope} />
              <Waste scope={scope} node={scope ?? onlyNode} />
              <SinceYesterday scope={scope} />
            </div>
            <div className="rows">
              <BudgetCard session={session} scope={scope} />
              <PendingRequests scope={scope} />
            </div>
          </div>
        )}
        {hasCosts && !submits && <Costs scope={scope} />}
        {submits && <EntitlementCard session={session} quotas={teams} isUseShown={isOneTeam} />}
        {submits && <MyJobs session={session} hasSubmit={!isLead} />}
        {may(session, "view_tree") && !isOneTeam && <MyTeams session={session} scope={scope} />}
        {hasCosts && submits && <Costs scope={scope} />}
        {!submits && !hasCosts && (
          <Card label="No role yet">
            <Empty>You have no role yet. Ask an administrator of your organization for one.</Empty>
          </Card>
        )}
      </div>
    </Page>
  );
}
