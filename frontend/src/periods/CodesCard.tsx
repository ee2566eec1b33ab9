import { Button, Select, TextInput } from "@mantine/core";
import { useInfiniteQuery, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { client, unwrap } from "../api/client";
import { treeQuery } from "../api/queries";
import type { AccountingCode, TreeNode } from "../api/types";
import { monthLabel } from "../credits/months";
import { may } from "../session/access";
import { useSession } from "../session/useSession";
import { newIdempotencyKey } from "../submit/draft";
import { Confirm } from "../ui/Confirm";
import { DataTable } from "../ui/DataTable";
import { PagedCard } from "../ui/PagedCard";
import { Empty } from "../ui/states";
import { toastDone } from "../ui/toast";
import { FormDialog } from "./FormDialog";
import { codesQuery } from "./queries";

const KINDS: Record<AccountingCode["kind"], string> = {
  cost_centre: "Cost centre",
  project_code: "Project code",
};
const LENGTH_MAX = 64;
const isMonth = (text: string) => /^20\d\d-(0[1-9]|1[0-2])$/.test(text);

type Act = { is: "set" } | { is: "end" | "remove"; row: AccountingCode };

/** Cost centres and project codes of an organization's nodes, by month. */
export function CodesCard({ organization }: { organization: TreeNode }) {
  const session = useSession();
  const [act, setAct] = useState<Act | null>(null);
  const codes = useInfiniteQuery(codesQuery(organization.id));
  const mayEdit = may(session, "manage_prices", organization.path);
  const onClose = () => setAct(null);
  return (
    <>
      <div className="spread">
        <h2>Cost centres and project codes</h2>
        {mayEdit && (
          <Button variant="default" onClick={() => setAct({ is: "set" })}>
            Set code…
          </Button>
        )}
      </div>
      <PagedCard
        query={codes}
        label="codes"
        lines={3}
        empty={<Empty>No codes yet. A code of a node is that of all nodes below it.</Empty>}
        command="tidegate codes list"
      >
        {(items) => <CodesTable codes={items} onAct={mayEdit ? setAct : null} />}
      </PagedCard>
      {act?.is === "set" && <SetDialog organization={organization} onClose={onClose} />}
      {act?.is === "end" && <EndDialog row={act.row} onClose={onClose} />}
      {act?.is === "remove" && <RemoveDialog row={act.row} onClose={onClose} />}
    </>
  );
}

function CodesTable({ codes, onAct }: { codes: readonly AccountingCode[]; onAct: ((act: Act) => void) | null }) {
  return (
    <DataTable
      label="Codes"
      className="codes"
      rows={codes}
      rowKey={(row) => row.id}
      columns={[
        { header: "Node", isHeading: true, className: "path", cell: (row) => row.node, sortBy: (row) => row.node },
        { header: "Kind", only: "wide", cell: (row) => KINDS[row.kind], sortBy: (row) => row.kind },
        { header: "Code", className: "path", cell: (row) => row.code, sortBy: (row) => row.code },
        {
          header: "Months",
          cell: (row) => (row.end === null ? `from ${row.start}` : `${row.start} until ${row.end}`),
          sortBy: (row) => row.start,
        },
        { header: "Set by", only: "wide", cell: (row) => row.set_by },
        ...(onAct === null
          ? []
          : [
              {
                header: "Actions",
                isRight: true,
                cell: (row: AccountingCode) => (
                  <span className="inline end">
                    <Button
                      size="compact-sm"
                      variant="default"
                      aria-label={`End ${row.code} of ${row.node}`}
                      onClick={() => onAct({ is: "end", row })}
                    >
                      End…
                    </Button>
                    <Button
                      size="compact-sm"
                      variant="default"
                      aria-label={`Remove ${row.code} of ${row.node}`}
                      onClick={() => onAct({ is: "remove", row })}
                    >
                      Remove…
                    </Button>
                  </span>
                ),
              },
            ]),
      ]}
    />
  );
}

/** Says that an act is done, reads the codes anew, and closes the dialog. */
function useDone(onClose: () => void) {
  const queryClient = useQueryClient();
  return (message: string) => {
    void queryClient.invalidateQueries({ queryKey: ["reports", "codes"] });
    toastDone(message);
    onClose();
  };
}

function SetDialog({ organization, onClose }: { organization: TreeNode; onClose: () => void }) {
  const done = useDone(onClose);
  const [key] = useState(newIdempotencyKey);
  const tree = useQuery(treeQuery);
  const [node, setNode] = useState<string | null>(organization.path);
  const [kind, setKind] = useState<AccountingCode["kind"]>("cost_centre");
  const [code, setCode] = useState("");
  const [start, setStart] = useState("");
  const [end, setEnd] = useState("");
  const set = useMutation({
    mutationFn: () =>
      unwrap(
        client.POST("/api/v1/organizations/{organization_id}/accounting-codes", {
          params: { path: { organization_id: organization.id }, header: { "Idempotency-Key": key } },
          body: { codes: [{ node: node ?? "", kind, code: code.trim(), start, end: end === "" ? null : end }] },
        }),
      ),
    onSuccess: () => done(`${KINDS[kind]} ${code.trim()} is set from ${monthLabel(start)} on`),
  });
  const paths = (tree.data ?? []).map(({ path }) => path).filter((path) => `${path}/`.startsWith(`${organization.path}/`));
  return (
    <FormDialog
      title="Set a code"
      error={set.error}
      isBusy={set.isPending}
      isDisabled={node === null || code.trim() === "" || !isMonth(start) || (end !== "" && !isMonth(end))}
      action="Set code"
      onSubmit={() => set.mutate()}
      onClose={onClose}
    >
      <p>It ends the code before it. Closed months keep theirs.</p>
      <Select label="Node" searchable nothingFoundMessage="No such node" data={paths} value={node} onChange={setNode} />
      <Select
        label="Kind"
        allowDeselect={false}
        data={Object.entries(KINDS).map(([value, label]) => ({ value, label }))}
        value={kind}
        onChange={(value) => setKind(value === "project_code" ? "project_code" : "cost_centre")}
      />
      <TextInput
        label="Code"
        maxLength={LENGTH_MAX}
        value={code}
        onChange={(event) => setCode(event.currentTarget.value)}
        data-autofocus
      />
      <TextInput
        label="First month"
        placeholder="2026-12"
        value={start}
        onChange={(event) => setStart(event.currentTarget.value.trim())}
      />
      <TextInput
        label="First month without it"
        description="Empty: until the next code."
        placeholder="2027-04"
        value={end}
        onChange={(event) => setEnd(event.currentTarget.value.trim())}
      />
    </FormDialog>
  );
}

function EndDialog({ row, onClose }: { row: AccountingCode; onClose: () => void }) {
  const done = useDone(onClose);
  const [end, setEnd] = useState(row.end ?? "");
  const ending = useMutation({
    mutationFn: () =>
      unwrap(client.PATCH("/api/v1/accounting-codes/{code_id}", { params: { path: { code_id: row.id } }, body: { end } })),
    onSuccess: () => done(`${row.code} ends before ${monthLabel(end)}`),
  });
  return (
    <FormDialog
      title={`End ${row.code}`}
      error={ending.error}
      isBusy={ending.isPending}
      isDisabled={!isMonth(end)}
      action="End code"
      onSubmit={() => ending.mutate()}
      onClose={onClose}
    >
      <p>From then on {row.node} has the code of the node above it.</p>
      <TextInput
        label="First month without it"
        placeholder="2027-04"
        value={end}
        onChange={(event) => setEnd(event.currentTarget.value.trim())}
        data-autofocus
      />
    </FormDialog>
  );
}

function RemoveDialog({ row, onClose }: { row: AccountingCode; onClose: () => void }) {
  const done = useDone(onClose);
  const removing = useMutation({
    mutationFn: () => unwrap(client.DELETE("/api/v1/accounting-codes/{code_id}", { params: { path: { code_id: row.id } } })),
    onSuccess: () => done(`${row.code} is removed`),
  });
  return (
    <Confirm
      title={`Remove ${row.code}`}
      isOpen
      isBusy={removing.isPending}
      confirmLabel="Remove code"
      isDangerous
      onConfirm={() => removing.mutate()}
      onClose={onClose}
    >
      <p>The {KINDS[row.kind].toLowerCase()} of {row.node} is removed from all of its months.</p>
      {removing.error && (
        <p role="alert" className="bad">
          {removing.error.message}
        </p>
      )}
    </Confirm>
  );
}
