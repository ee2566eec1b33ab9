import { useQuery, useQueryClient } from "@tanstack/react-query";

import { client, unwrap } from "../api/client";
import { workToDeactivateQuery } from "../api/queries";
import type { User } from "../api/types";
import { WorkDialog } from "../jobs/WorkDialog";

/** Shows what runs and waits of an account, and asks what becomes of it. */
export function DeactivateDialog({ user, onClose }: { user: User; onClose: () => void }) {
  const queryClient = useQueryClient();
  return (
    <WorkDialog
      title={`Deactivate ${user.login}?`}
      work={useQuery(workToDeactivateQuery(user.id))}
      act={(body) =>
        unwrap(client.POST("/api/v1/users/{user_id}/deactivate", { params: { path: { user_id: user.id } }, body }))
      }
      done={`${user.login} is deactivated`}
      onDone={() => {
        for (const key of ["users", "jobs", "tokens"]) void queryClient.invalidateQueries({ queryKey: [key] });
      }}
      until="the reactivation"
      none="None of their jobs runs or waits."
      command={`tidegate user deactivate ${user.login}`}
      confirmLabel="Deactivate"
      onClose={onClose}
    >
      Sessions end and tokens are revoked at once. A reactivation brings neither back.
    </WorkDialog>
  );
}
