import { useQueryClient } from "@tanstack/react-query";

/** Read anew what the archiving or the restore of a cluster or pool changes. */
export function useFleetChanged(): () => void {
  const queryClient = useQueryClient();
  return () => {
    for (const key of ["clusters", "nodes", "quotas", "jobs"]) {
      void queryClient.invalidateQueries({ queryKey: [key] });
    }
  };
}
