import { createContext, useContext } from "react";

import type { Session } from "../api/types";

/** Set by the shell for the pages in it, so that none of them is ever drawn without a person. */
export const SessionContext = createContext<Session | null>(null);

/** The signed-in person. Only for pages inside the shell. */
export function useSession(): Session {
  const session = useContext(SessionContext);
  if (session === null) throw new Error("useSession is for pages inside the shell");
  return session;
}
