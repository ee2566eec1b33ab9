import { useQueryClient } from "@tanstack/react-query";
import { useEffect, useState } from "react";

import { sessionQuery } from "../api/queries";
import { connectLive, type LiveState } from "../api/live";

/** Keeps the page's queries fresh while it is open. */
export function useLive(): LiveState {
  const queryClient = useQueryClient();
  const [state, setState] = useState<LiveState>("connecting");
  useEffect(() => {
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    return connectLive({
      url: `${scheme}://${location.host}/ws/changes`,
      onState: setState,
      onSignedOut: () => void queryClient.invalidateQueries(sessionQuery),
      onChange: (topics) => {
        for (const topic of topics) void queryClient.invalidateQueries({ queryKey: [topic] });
      },
    });
  }, [queryClient]);
  return state;
}
