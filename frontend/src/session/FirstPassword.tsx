import type { Session } from "../api/types";
import { usePageTitle } from "../ui/usePageTitle";
import { LoginFrame } from "./LoginFrame";
import { PasswordForm } from "./PasswordForm";
import { SignOutButton } from "./SignOutButton";

/** In the place of every page while my password is one that an administrator chose. */
export function FirstPassword({ session }: { session: Session }) {
  usePageTitle("Choose a password");
  return (
    <LoginFrame
      title="Choose a password"
      line={`An administrator chose the password of ${session.user.login}. Choose your own to go on.`}
    >
      <PasswordForm login={session.user.login} onChanged={() => undefined} />
      <SignOutButton />
    </LoginFrame>
  );
}
