import { useQueryClient } from "@tanstack/react-query";

/** Read anew what a change of the tree changes. */
export function useTreeChanged(): () => void {
  const queryClient = useQueryClient();
  return () => {
    for (const key of ["tree", "organizations", "quotas", "jobs"]) void queryClient.invalidateQueries({ queryKey: [key] });
  };
}
