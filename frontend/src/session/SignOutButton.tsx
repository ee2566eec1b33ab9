import { Button } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";

import { client, unwrap } from "../api/client";
import { sessionQuery } from "../api/queries";
import { toastError } from "../ui/toast";

/** Ends the session, on the pages that stand in the place of all others. */
export function SignOutButton() {
  const queryClient = useQueryClient();
  const signOut = useMutation({
    mutationFn: () => unwrap(client.DELETE("/api/v1/session")),
    onSuccess: () => queryClient.setQueryData(sessionQuery.queryKey, null),
    onError: toastError,
  });
  return (
    <div>
      <Button variant="default" size="xs" loading={signOut.isPending} onClick={() => signOut.mutate()}>
        Sign out
      </Button>
    </div>
  );
}
