import { Modal } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";

import { client, unwrap } from "../api/client";
import { workToDeactivateQuery } from "../api/queries";
import type { Archiving, User, Work } from "../api/types";
import { WorkForm } from "../jobs/WorkForm";
import { Lines, QueryView } from "../ui/states";
import { toastDone, toastError } from "../ui/toast";
import { useReturnFocus } from "../ui/useReturnFocus";

/** Shows what runs and waits of an account, and asks what becomes of it. */
export function DeactivateDialog({ user, onClose }: { user: User; onClose: () => void }) {
  useReturnFocus();
  const work = useQuery(workToDeactivateQuery(user.id));
  return (
    <Modal
      opened
      onClose={onClose}
      size="lg"
      title={`Deactivate ${user.login}?`}
      closeButtonProps={{ "aria-label": "Close" }}
    >
      <QueryView query={work} loading={<Lines count={4} label="Loading its jobs" />}>
        {(found) => <DeactivateForm user={user} work={found} onClose={onClose} />}
      </QueryView>
    </Modal>
  );
}

function DeactivateForm({ user, work, onClose }: { user: User; work: Work; onClose: () => void }) {
  const queryClient = useQueryClient();
  const deactivate = useMutation({
    mutationFn: (body: Archiving) =>
      unwrap(client.POST("/api/v1/users/{user_id}/deactivate", { params: { path: { user_id: user.id } }, body })),
    onSuccess: () => {
      toastDone(`${user.login} is deactivated`);
      for (const key of ["users", "jobs", "tokens"]) void queryClient.invalidateQueries({ queryKey: [key] });
      onClose();
    },
    onError: toastError,
  });
  return (
    <WorkForm
      work={work}
      until="the reactivation"
      none="None of their jobs runs or waits."
      command={`tidegate user deactivate ${user.login}`}
      confirmLabel="Deactivate"
      isBusy={deactivate.isPending}
      onConfirm={deactivate.mutate}
      onClose={onClose}
    >
      Sessions end and tokens are revoked at once. A reactivation brings neither back.
    </WorkForm>
  );
}
