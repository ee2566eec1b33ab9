import { Button, Modal, Select, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useMutation, useQueryClient } from "@tanstack/react-query";

import { client, unwrap } from "../api/client";
import type { Pool, TreeNode, UserCap } from "../api/types";
import { CliLine } from "../ui/CliLine";
import { toastDone } from "../ui/toast";
import { useReturnFocus } from "../ui/useReturnFocus";
import { userCapsQuery } from "./queries";

export function ownerText({ team, user, pool }: UserCap): string {
  return `${user ?? "each user"} in ${team}${pool === null ? "" : ` · ${pool}`}`;
}

/** Milli-GPU that a person typed, null for none, undefined for what is no number of GPUs. */
function readCap(text: string, user: string): number | null | undefined {
  const plain = text.trim();
  if (plain === "none" && user.trim() !== "") return null;
  return /^\d+(\.\d{1,3})?$/.test(plain) ? Math.round(Number(plain) * 1_000) : undefined;
}

/** Sets a new cap, of `first` where it is given, or changes one. */
export function CapDialog({
  cap,
  teams,
  pools,
  first,
  onClose,
}: {
  cap: UserCap | null;
  teams: readonly TreeNode[];
  pools: readonly Pick<Pool, "name">[];
  first?: { user: string; pool: string };
  onClose: () => void;
}) {
  useReturnFocus();
  const queryClient = useQueryClient();
  const form = useForm({
    initialValues: {
      team: cap?.team ?? teams[0]?.path ?? "",
      user: cap?.user ?? first?.user ?? "",
      pool: cap?.pool ?? first?.pool ?? "",
      most: cap === null ? "" : cap.cap_mgpu === null ? "none" : String(cap.cap_mgpu / 1_000),
    },
    validate: {
      most: (most, { user }) =>
        readCap(most, user) === undefined ? "Give a number of GPUs, such as 8; for one user also none." : null,
    },
  });
  const { values } = form;
  const save = useMutation({
    mutationFn: () => {
      const body = { cap_mgpu: readCap(values.most, values.user) ?? null };
      if (cap !== null) {
        return unwrap(
          client.PATCH("/api/v1/user-caps/{cap_id}", {
            params: { path: { cap_id: cap.id }, header: { "If-Match": `"v${cap.version}"` } },
            body,
          }),
        );
      }
      return unwrap(
        client.POST("/api/v1/user-caps", {
          body: { ...body, team: values.team, user: values.user.trim() || null, pool: values.pool || null },
        }),
      );
    },
    onSuccess: (saved) => {
      for (const queryKey of [userCapsQuery.queryKey, ["users"]]) void queryClient.invalidateQueries({ queryKey });
      toastDone(`The cap of ${ownerText(saved)} is set`);
      onClose();
    },
  });
  const only = `${values.user.trim() && ` --user ${values.user.trim()}`}${values.pool && ` --pool ${values.pool}`}`;
  return (
    <Modal
      opened
      onClose={onClose}
      size="lg"
      title={cap === null ? "New cap" : `Cap of ${ownerText(cap)}`}
      closeButtonProps={{ "aria-label": "Close" }}
    >
      <form className="stack" onSubmit={form.onSubmit(() => save.mutate())}>
        {cap === null && (
          <>
            <Select
              label="Team"
              searchable
              allowDeselect={false}
              data={teams.map((node) => node.path)}
              {...form.getInputProps("team")}
            />
            <div className="budget-pair">
              <TextInput label="User" placeholder="each user" {...form.getInputProps("user")} />
              <Select
                label="Pool"
                data={[{ value: "", label: "All pools together" }, ...pools.map(({ name }) => ({ value: name, label: name }))]}
                allowDeselect={false}
                {...form.getInputProps("pool")}
              />
            </div>
          </>
        )}
        <TextInput label="GPUs at once" data-autofocus inputMode="decimal" {...form.getInputProps("most")} />
        {save.error && (
          <p className="bad-text" role="alert">
            {save.error.message}
          </p>
        )}
        <CliLine command={`tidegate caps set ${values.most || "GPUS"} --team ${values.team}${only}`} />
        <div className="inline end">
          <Button variant="default" onClick={onClose}>
            Back
          </Button>
          <Button type="submit" loading={save.isPending}>
            {cap === null ? "Set cap" : "Save"}
          </Button>
        </div>
      </form>
    </Modal>
  );
}
