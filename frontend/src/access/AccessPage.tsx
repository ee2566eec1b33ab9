import { Link } from "@tanstack/react-router";

import { PasswordForm } from "../session/PasswordForm";
import { Card } from "../ui/Card";
import { CliLine } from "../ui/CliLine";
import { Page } from "../ui/Page";
import { toastDone } from "../ui/toast";
import { useSession } from "../session/useSession";
import { SecondFactors } from "./secondFactors";
import { Sessions } from "./sessions";
import { Tokens } from "./tokens";

/** My tokens, my second factor, my sessions and my password. */
export function AccessPage() {
  const { user } = useSession();
  return (
    <Page
      title="My access"
      lead={
        <>
          Tokens are for scripts, the <code>tidegate</code> command and the REST API. A token never has more rights than
          you do. <Link to="/device">Log a machine in</Link> with the code that <code>tidegate login</code> shows.
        </>
      }
    >
      <Tokens title="My tokens" canMake cli="tidegate token create NAME --scope read" />
      {user.kind === "person" && <SecondFactors />}
      {user.kind === "person" && <Sessions title="My sessions" />}
      {user.kind === "person" && (
        <Card style={{ marginTop: 14 }}>
          <h2>Password</h2>
          <p className="dim">A change ends all your other sessions. Tokens stay.</p>
          <div style={{ maxWidth: 420 }}>
            <PasswordForm login={user.login} onChanged={() => toastDone("The password is changed")} />
          </div>
          <p className="sub" style={{ marginTop: 14 }}>
            <CliLine command="tidegate passwd" />
          </p>
        </Card>
      )}
    </Page>
  );
}
