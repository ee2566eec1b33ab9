import { Select } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";

import { treeQuery } from "../api/queries";

/** Narrows the pages to one node of the tree. Kept in the address as `?scope=`. */
export function ScopeSwitcher() {
  const { scope } = useSearch({ from: "/shell" });
  const navigate = useNavigate();
  const tree = useQuery(treeQuery);
  const paths = (tree.data ?? []).map((node) => node.path);
  if (scope !== undefined && !paths.includes(scope)) paths.unshift(scope);
  return (
    <Select
      className="scope"
      aria-label="Scope"
      placeholder="All organizations"
      size="xs"
      searchable
      clearable
      limit={200}
      nothingFoundMessage="No such node"
      clearButtonProps={{ "aria-label": "Show all organizations" }}
      value={scope ?? null}
      data={paths}
      error={tree.error && tree.data === undefined ? "tree unknown" : undefined}
      onChange={(path) =>
        void navigate({
          to: ".",
          search: (before: Record<string, unknown>) => ({
            ...before,
            scope: path ?? undefined,
            cursor: undefined,
          }),
        })
      }
    />
  );
}
