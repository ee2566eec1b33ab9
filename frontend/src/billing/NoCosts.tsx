import { Link } from "@tanstack/react-router";

import { may } from "../session/access";
import { useSession } from "../session/useSession";
import { Card } from "../ui/Card";

/** In the place of costs that the reader may not see: who may, and where to go instead. */
export function NoCosts({ node }: { node?: string | undefined }) {
  const session = useSession();
  const isSomewhere = may(session, "view_costs");
  return (
    <Card label="Not for you to see" tone="note">
      <h2>{node === undefined ? "Costs are not for you to see" : `The costs of ${node} are not for you to see`}</h2>
      <p className="sentence">
        Team leads, administrators, finance and auditors see them, each for their own part of the
        organization. Ask one of them for a number, or an administrator for such a role.
      </p>
      {isSomewhere ? (
        <Link to="/chargeback" search={{ scope: undefined }}>
          All costs that you may see
        </Link>
      ) : (
        <Link to="/jobs">Jobs and what each of them used</Link>
      )}
    </Card>
  );
}
