import { Button, Modal, Select } from "@mantine/core";
import { useInfiniteQuery, useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { client, unwrap } from "../api/client";
import { usersQuery } from "../api/queries";
import type { Member } from "../api/types";
import { toastDone } from "../ui/toast";
import { endOfDay, RoleFields, type RoleChoice } from "./RoleFields";
import { roleWords } from "./use";
import { useNode } from "./useNode";

/** Gives an account of the organization a role on the node. */
export function AddMember({ members, onClose }: { members: readonly Member[]; onClose: () => void }) {
  const node = useNode();
  const queryClient = useQueryClient();
  const users = useInfiniteQuery(usersQuery());
  const [login, setLogin] = useState<string | null>(null);
  const [choice, setChoice] = useState<RoleChoice>({ role: "researcher", lastDay: "" });
  const known = new Set(members.filter(({ source }) => source === "here").map(({ user }) => user.login));
  const accounts = (users.data?.pages ?? [])
    .flatMap((page) => page.items)
    .filter((user) => user.is_active && !known.has(user.login));
  const give = useMutation({
    mutationFn: () =>
      unwrap(
        client.POST("/api/v1/role-grants", {
          body: { user: login ?? "", role: choice.role, node: node.path, expires_at: endOfDay(choice.lastDay) },
        }),
      ),
    onSuccess: (made) => {
      toastDone(`${made.user} is ${roleWords(made.role)} in ${node.path}`);
      void queryClient.invalidateQueries({ queryKey: ["users"] });
      onClose();
    },
  });
  return (
    <Modal opened onClose={onClose} title={`Add a member to ${node.path}`} closeButtonProps={{ "aria-label": "Close" }}>
      <form
        className="stack"
        onSubmit={(event) => {
          event.preventDefault();
          give.mutate();
        }}
      >
        <Select
          label="Account"
          placeholder="Login, name or mail address"
          searchable
          limit={50}
          data={accounts.map((user) => ({
            value: user.login,
            label: [user.login, user.name, user.email].filter(Boolean).join(" · "),
          }))}
          nothingFoundMessage="No such account. Make it on the page People first."
          value={login}
          onChange={setLogin}
          onSearchChange={() => {
            if (users.hasNextPage && !users.isFetchingNextPage) void users.fetchNextPage();
          }}
        />
        <RoleFields value={choice} onChange={setChoice} />
        {give.error && (
          <p className="bad-text breaks" role="alert">
            {give.error.message}
          </p>
        )}
        <div className="inline end">
          <Button type="submit" disabled={login === null} loading={give.isPending}>
            Add
          </Button>
        </div>
      </form>
    </Modal>
  );
}
