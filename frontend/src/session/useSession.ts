import { useQuery } from "@tanstack/react-query";

import { sessionQuery } from "../api/queries";
import type { Session } from "../api/types";

/** The signed-in person. Only for pages inside the shell, which waits for the session. */
export function useSession(): Session {
  const { data } = useQuery(sessionQuery);
  if (!data) throw new Error("useSession is for pages behind the login");
  return data;
}
