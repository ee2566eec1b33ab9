import { Button, Drawer } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";

import { quotaChangesQuery } from "../api/queries";
import type { Quota, QuotaChange } from "../api/types";
import { useDraft } from "../planned/useDraft";
import { NodeLink } from "../tree/NodeLink";
import { AskLink } from "../requests/AskLink";
import { may } from "../session/access";
import { useSession } from "../session/useSession";
import { CliLine } from "../ui/CliLine";
import { DataTable } from "../ui/DataTable";
import { Fact, Facts } from "../ui/Facts";
import { QueryView } from "../ui/states";
import { Time } from "../ui/Time";
import { DEVICE_WORDS, formatGpuCount, formatGpus, percentWords } from "../ui/units";
import { toastError } from "../ui/toast";
import { useReturnFocus } from "../ui/useReturnFocus";
import { Archive } from "./Archive";
import { Delete } from "./Delete";
import { Move } from "./Move";
import { describeChange, undoOf, undoReason } from "./changes";
import { QuotaForm } from "./QuotaForm";
import { BORROWED_HINT, formatLent, notInForce, quotaUse, startable } from "./use";
import { QuotaBar } from "./QuotaBar";

/** One node's quota: its numbers, the form that changes it, and who changed it before. */
export function QuotaDrawer({
  quota,
  parent,
  isArchived,
  onMoved,
  onClose,
}: {
  quota: Quota;
  parent: Quota | null;
  /** Whether its node is archived: its quotas are not in force then. */
  isArchived: boolean;
  /** Called with the new path. */
  onMoved: (path: string) => void;
  onClose: () => void;
}) {
  useReturnFocus();
  const use = quotaUse(isArchived ? notInForce(quota) : quota);
  const { startMgpu, overMgpu } = startable(quota);
  const limit = (mgpu: number | null, none: string) => (mgpu === null ? none : formatGpus(mgpu));
  return (
    <Drawer
      opened
      onClose={onClose}
      position="right"
      size="lg"
      title={
        <b>
          {quota.node} · {quota.pool}
        </b>
      }
      closeButtonProps={{ "aria-label": "Close" }}
    >
      <div className="rows quota-drawer">
        {isArchived && (
          <p>
            {quota.node} is archived. Its quotas are not in force until it is restored: jobs that still run there count
            as borrowed.
          </p>
        )}
        <QuotaBar
          use={use}
          scaleMgpu={Math.max(1, use.guaranteedMgpu, use.inUseMgpu, use.waitingMgpu, use.ceilingMgpu ?? 0)}
        />
        <Facts>
            <Fact name="In use">{formatGpuCount(use.inUseMgpu, quota.device)}</Fact>
            <Fact name={isArchived ? "Guaranteed once restored" : "Guaranteed"}>
              {formatGpuCount(quota.guaranteed_mgpu, quota.device)}
              {quota.guaranteed_percent !== null && parent && (
                <span className="faint">
                  {" "}
                  · {percentWords(quota.guaranteed_percent)} of {parent.node_name}
                </span>
              )}
            </Fact>
            <Fact name="Borrowed now">{formatGpus(use.borrowedMgpu)}</Fact>
            {!isArchived && (
              <>
                <Fact name="Lent now">{formatLent(use.lentMgpu)}</Fact>
                <Fact name="Could start now">
                  {formatGpus(startMgpu)}
                  {overMgpu > 0 && <span className="faint"> · {formatGpus(overMgpu)} over the limit</span>}
                </Fact>
              </>
            )}
            <Fact name="Waiting">{formatGpus(use.waitingMgpu)}</Fact>
            {quota.node_kind !== "team" && (
              <Fact name="Reserve, guaranteed to no one below">{formatGpus(quota.reserve_mgpu)}</Fact>
            )}
            <Fact name="Borrow limit">{limit(quota.borrow_limit_mgpu, "none of its own")}</Fact>
            <Fact name="Lend limit">{limit(quota.lend_limit_mgpu, "lends all that is idle")}</Fact>
            <Fact name={`Weight for spare ${DEVICE_WORDS[quota.device]}`}>{quota.weight}</Fact>
          </Facts>
        {use.borrowedMgpu > 0 && <p className="small dim">Borrowed: {BORROWED_HINT}</p>}
        {quota.can_edit.length > 0 && !isArchived && (
          <section aria-label="Change this quota">
            <h2>Change</h2>
            <QuotaForm key={quota.id} quota={quota} parent={parent} onSaved={onClose} />
          </section>
        )}
        {!isArchived && <Asks quota={quota} />}
        <section aria-label="History of changes">
          <h2>Changes so far</h2>
          <Changes quota={quota} isUndoable={quota.can_edit.length > 0 && !isArchived} />
        </section>
        <NodeLink path={quota.node} />
        <Move path={quota.node} onMoved={onMoved} />
        <Archive path={quota.node} />
        <Delete path={quota.node} onDeleted={onClose} />
        <CliLine command={`tidegate quota get ${quota.node} --pool ${quota.pool}`} />
      </div>
    </Drawer>
  );
}

/** Requests about this quota: for more, where others decide, and offers to lend. */
function Asks({ quota }: { quota: Quota }) {
  const session = useSession();
  const manages = may(session, "manage_quota", quota.node);
  const mayAsk = !quota.can_edit.includes("guaranteed_mgpu") && (manages || may(session, "submit_jobs", quota.node));
  if (!mayAsk) return null;
  return (
    <div className="inline">
      <AskLink asked={{ ask: "guarantee", node: quota.node, pool: quota.pool }}>Ask for more…</AskLink>
      {quota.borrow_limit_mgpu !== null && (
        <AskLink asked={{ ask: "borrow_limit", node: quota.node, pool: quota.pool }}>Raise the borrow limit…</AskLink>
      )}
      {manages && <AskLink asked={{ ask: "loan", lender: quota.node, pool: quota.pool }}>Lend to a sibling…</AskLink>}
    </div>
  );
}

function Changes({ quota, isUndoable }: { quota: Quota; isUndoable: boolean }) {
  const changes = useQuery(quotaChangesQuery(quota.id));
  return (
    <QueryView query={changes}>
      {({ items }) =>
        items.length === 0 ? (
          <p className="dim">It is as it was first set.</p>
        ) : (
          <DataTable
            rows={items}
            rowKey={(change) => change.id}
            columns={[
              {
                header: "When",
                cell: (change) => (
                  <>
                    <Time at={change.at} />
                    <div className="small faint">{change.actor ?? "Tidegate"}</div>
                  </>
                ),
              },
              {
                header: "What",
                cell: (change) =>
                  describeChange(change.before, change.after).map((line) => <div key={line}>{line}</div>),
              },
              {
                header: "Why",
                cell: (change) => (
                  <>
                    {change.reason}
                    {isUndoable && <Undo quota={quota} change={change} />}
                  </>
                ),
              },
            ]}
          />
        )
      }
    </QueryView>
  );
}

/** Drafts the change that sets back what this one set, and shows what that would do before it is applied. */
function Undo({ quota, change }: { quota: Quota; change: QuotaChange }) {
  const draft = useDraft();
  const edit = undoOf(quota, change);
  if (edit === null) return null;
  return (
    <div>
      <Button
        variant="default"
        size="compact-xs"
        loading={draft.isPending}
        aria-label={`Undo: ${change.reason}`}
        onClick={() =>
          draft.mutate({ edits: [edit], reason: undoReason(change) }, { onError: toastError })
        }
      >
        Undo…
      </Button>
    </div>
  );
}
