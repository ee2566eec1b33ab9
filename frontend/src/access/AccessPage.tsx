import { PasswordForm } from "../session/PasswordForm";
import { CliLine } from "../ui/CliLine";
import { usePageTitle } from "../ui/usePageTitle";
import { toastDone } from "../ui/toast";
import { useSession } from "../session/useSession";
import { Tokens } from "./tokens";

/** What I sign in with: my tokens and my password. */
export function AccessPage() {
  usePageTitle("My access");
  const { user } = useSession();
  return (
    <>
      <h1>My access</h1>
      <p className="sub">
        Tokens are for scripts, the <code>tidegate</code> command and the REST API. A token never has more rights than you do.
      </p>
      <Tokens title="My tokens" canMake cli="tidegate token create NAME --scope read" />
      {user.kind === "person" && (
        <div className="card" style={{ marginTop: 14 }}>
          <h2>Password</h2>
          <p className="dim">A change ends all your other sessions. Tokens stay.</p>
          <div style={{ maxWidth: 420 }}>
            <PasswordForm login={user.login} onChanged={() => toastDone("The password is changed")} />
          </div>
          <p className="sub" style={{ marginTop: 14 }}>
            <CliLine command="tidegate passwd" />
          </p>
        </div>
      )}
    </>
  );
}
