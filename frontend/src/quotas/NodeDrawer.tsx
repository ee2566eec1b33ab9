import { Button, Drawer, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useMutation } from "@tanstack/react-query";

import { client, unwrap } from "../api/client";
import type { Quota, TreeNode } from "../api/types";
import { may } from "../session/access";
import { useSession } from "../session/useSession";
import { NodeLink } from "../tree/NodeLink";
import { toastDone } from "../ui/toast";
import { DEVICE_WORDS, formatGpuCount, parseGpus } from "../ui/units";
import { useReturnFocus } from "../ui/useReturnFocus";
import { Archive } from "./Archive";
import { Delete } from "./Delete";
import { Move } from "./Move";
import { useTreeChanged } from "./useTreeChanged";

/** A node without a quota in the pool: gives it its first one there, and changes its place in the tree. */
export function NodeDrawer({
  node,
  pool,
  device,
  parent,
  onMoved,
  onClose,
}: {
  node: TreeNode;
  pool: string;
  device: Quota["device"];
  /** The quota of its parent there. */
  parent: Quota | null;
  /** Called with the new path. */
  onMoved: (path: string) => void;
  onClose: () => void;
}) {
  useReturnFocus();
  const session = useSession();
  const mayGive = may(session, "manage_quota", node.parent ?? "");
  return (
    <Drawer
      opened
      onClose={onClose}
      position="right"
      size="lg"
      title={
        <b className="breaks">
          {node.path} · {pool}
        </b>
      }
      closeButtonProps={{ "aria-label": "Close" }}
    >
      <div className="rows quota-drawer">
        <p>
          {node.parent === null
            ? `Without a quota in ${pool} it cannot use the pool.`
            : `Without a quota in ${pool} it is guaranteed nothing and has no limits of its own.`}
        </p>
        <NodeLink path={node.path} />
        {mayGive && node.parent !== null && parent === null && (
          <p className="dim">{node.parent} has no quota in {pool} either. Give it one first.</p>
        )}
        {mayGive && (node.parent === null || parent !== null) && (
          <section aria-label="Give it a quota">
            <h2>Give it a quota</h2>
            <FirstQuota node={node} pool={pool} device={device} />
          </section>
        )}
        <Move path={node.path} onMoved={onMoved} />
        <Archive path={node.path} />
        <Delete path={node.path} onDeleted={onClose} />
      </div>
    </Drawer>
  );
}

function FirstQuota({ node, pool, device }: { node: TreeNode; pool: string; device: Quota["device"] }) {
  const changed = useTreeChanged();
  const form = useForm({ initialValues: { guaranteed: "", reason: "" } });
  const { guaranteed, reason } = form.values;
  const mgpu = parseGpus(guaranteed);
  const give = useMutation({
    mutationFn: () =>
      unwrap(
        client.POST("/api/v1/quotas", {
          body: { node: node.path, pool, guaranteed_mgpu: mgpu ?? 0, reason: reason.trim() },
        }),
      ),
    onSuccess: (made) => {
      toastDone(`${made.node}, ${made.pool}: ${formatGpuCount(made.guaranteed_mgpu, made.device)} guaranteed`);
      changed();
    },
  });
  const isWrong = guaranteed !== "" && mgpu === null;
  return (
    <form
      className="stack"
      onSubmit={form.onSubmit(() => {
        if (mgpu !== null && reason.trim() !== "") give.mutate();
      })}
    >
      <TextInput
        label="Guaranteed"
        description={`${DEVICE_WORDS[device]}, such as 8`}
        inputMode="decimal"
        {...form.getInputProps("guaranteed")}
        error={isWrong && `A number of ${DEVICE_WORDS[device]}, such as 200 or 0.5.`}
      />
      <TextInput label="Reason" {...form.getInputProps("reason")} />
      {give.error && (
        <p className="bad-text breaks" role="alert">
          {give.error.message}
        </p>
      )}
      <div className="inline">
        <Button type="submit" disabled={mgpu === null || reason.trim() === ""} loading={give.isPending}>
          Give quota
        </Button>
      </div>
    </form>
  );
}
