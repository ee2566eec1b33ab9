import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { sessionQuery } from "../api/queries";
import type { Session } from "../api/types";
import { usePageTitle } from "../ui/usePageTitle";
import { AuthenticatorSetup } from "./AuthenticatorSetup";
import { LoginFrame } from "./LoginFrame";
import { RecoveryCodes } from "./RecoveryCodes";
import { SignOutButton } from "./SignOutButton";

/** In the place of every page while my organization requires a second factor that I have not added. */
export function RequiredFactor({ session, onStored }: { session: Session; onStored: () => void }) {
  usePageTitle("Add a second factor");
  const queryClient = useQueryClient();
  const [codes, setCodes] = useState<readonly string[] | null>(null);
  const { login, organization } = session.user;
  if (codes !== null)
    return (
      <LoginFrame title="Recovery codes" line={null}>
        <RecoveryCodes
          login={login}
          codes={codes}
          onStored={() => void queryClient.invalidateQueries({ queryKey: sessionQuery.queryKey }).then(onStored)}
        />
      </LoginFrame>
    );
  return (
    <LoginFrame
      title="Add a second factor"
      line={`${organization?.name ?? "Your organization"} requires a second factor beside the password of ${login}.`}
    >
      <AuthenticatorSetup onAdded={setCodes} />
      <SignOutButton />
    </LoginFrame>
  );
}
