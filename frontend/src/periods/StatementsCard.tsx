import { Anchor, Button, Select, Textarea, TextInput } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { client, unwrap } from "../api/client";
import type { Statement, TreeNode } from "../api/types";
import { may } from "../session/access";
import { useSession } from "../session/useSession";
import { Card } from "../ui/Card";
import { CliLine } from "../ui/CliLine";
import { DataTable } from "../ui/DataTable";
import { Empty, Lines, QueryView } from "../ui/states";
import { Time } from "../ui/Time";
import { toastDone } from "../ui/toast";
import { formatMoney } from "../ui/units";
import { FormDialog } from "./FormDialog";
import { statementsQuery } from "./queries";

const NANO_PER_CENT = 10_000_000n;
const UNITS = [
  { value: "department", label: "Each department" },
  { value: "team", label: "Each team" },
];

type Asked = { kind: "issue" } | { kind: "credit"; statement: Statement } | null;

/** The statements of a closed month: to issue, download and credit. */
export function StatementsCard({ organization, month }: { organization: TreeNode; month: string }) {
  const session = useSession();
  const statements = useQuery(statementsQuery(organization.id, month));
  const [asked, setAsked] = useState<Asked>(null);
  const mayIssue = may(session, "manage_prices", organization.path);
  const close = () => setAsked(null);
  return (
    <Card label="Statements">
      <div className="spread">
        <h3>Statements</h3>
        {mayIssue && <Button onClick={() => setAsked({ kind: "issue" })}>Issue…</Button>}
      </div>
      <QueryView query={statements} loading={<Lines count={3} label="Loading the statements" />}>
        {(items) =>
          items.length === 0 ? (
            <Empty cli={`tidegate statements issue ${month}`}>No statements yet. Issue one to each unit.</Empty>
          ) : (
            <>
              <StatementTable
                statements={items}
                onCredit={mayIssue ? (statement) => setAsked({ kind: "credit", statement }) : null}
              />
              <CliLine command={`tidegate statements list ${month}`} />
            </>
          )
        }
      </QueryView>
      {asked?.kind === "issue" && <IssueDialog organization={organization} month={month} onClose={close} />}
      {asked?.kind === "credit" && <CreditDialog statement={asked.statement} onClose={close} />}
    </Card>
  );
}

/** "€1,234.56" of cents. */
export function centsText(cents: number, currency: string): string {
  return formatMoney(BigInt(cents) * NANO_PER_CENT, currency);
}

function StatementTable({
  statements,
  onCredit,
}: {
  statements: readonly Statement[];
  onCredit: ((statement: Statement) => void) | null;
}) {
  return (
    <DataTable
      label="Statements"
      className="statements"
      rows={statements}
      rowKey={(row) => row.id}
      columns={[
        {
          header: "Number",
          isHeading: true,
          cell: (row) => (
            <>
              {row.number}
              {row.credits && <span className="small dim note">credits {row.credits}</span>}
              {row.credited_by && <span className="small dim note">credited by {row.credited_by}</span>}
            </>
          ),
        },
        { header: "Unit", className: "path", title: (row) => row.unit, cell: (row) => row.unit },
        { header: "Total", isRight: true, cell: (row) => centsText(row.total_cents, row.currency) },
        { header: "Issued", only: "wide", cell: (row) => <Time at={row.issued_at} show="exact" /> },
        { header: "Due", only: "wide", cell: (row) => row.due_on ?? "–" },
        {
          header: "Files",
          isRight: true,
          cell: (row) => (
            <span className="inline end">
              {(["pdf", "html"] as const).map((ending) => (
                <Anchor
                  key={ending}
                  href={`/api/v1/statements/${row.id}/${ending}`}
                  download
                  aria-label={`${ending.toUpperCase()} of ${row.number}`}
                >
                  {ending.toUpperCase()}
                </Anchor>
              ))}
              {onCredit && row.kind === "statement" && !row.credited_by && (
                <Button
                  size="compact-sm"
                  variant="default"
                  aria-label={`Credit ${row.number}`}
                  onClick={() => onCredit(row)}
                >
                  Credit…
                </Button>
              )}
            </span>
          ),
        },
      ]}
    />
  );
}

function IssueDialog({ organization, month, onClose }: { organization: TreeNode; month: string; onClose: () => void }) {
  const queryClient = useQueryClient();
  const [unit, setUnit] = useState<"department" | "team">("department");
  const [due, setDue] = useState("");
  const [terms, setTerms] = useState("");
  const issue = useMutation({
    mutationFn: () =>
      unwrap(
        client.POST("/api/v1/organizations/{organization_id}/periods/{month}/statements", {
          params: { path: { organization_id: organization.id, month } },
          body: { unit, due_on: due === "" ? null : due, terms: terms.trim() },
        }),
      ),
    onSuccess: ({ items }) => {
      void queryClient.invalidateQueries({ queryKey: ["reports", "statements"] });
      toastDone(`${items.length} ${items.length === 1 ? "statement is" : "statements are"} issued`);
      onClose();
    },
  });
  return (
    <FormDialog
      title="Issue statements"
      error={issue.error}
      isBusy={issue.isPending}
      action="Issue statements"
      onSubmit={() => issue.mutate()}
      onClose={onClose}
    >
      <p>Statements get numbers and never change. A credit note takes one back.</p>
      <Select
        label="A statement for"
        allowDeselect={false}
        data={UNITS}
        value={unit}
        onChange={(value) => setUnit(value === "team" ? "team" : "department")}
        data-autofocus
      />
      <TextInput label="Due date" type="date" value={due} onChange={(event) => setDue(event.currentTarget.value)} />
      <Textarea
        label="Terms"
        placeholder="30 days net"
        maxLength={500}
        value={terms}
        onChange={(event) => setTerms(event.currentTarget.value)}
      />
    </FormDialog>
  );
}

function CreditDialog({ statement, onClose }: { statement: Statement; onClose: () => void }) {
  const queryClient = useQueryClient();
  const [reason, setReason] = useState("");
  const credit = useMutation({
    mutationFn: () =>
      unwrap(
        client.POST("/api/v1/statements/{statement_id}/credit", {
          params: { path: { statement_id: statement.id } },
          body: { reason: reason.trim() },
        }),
      ),
    onSuccess: (note) => {
      void queryClient.invalidateQueries({ queryKey: ["reports", "statements"] });
      toastDone(`${statement.number} is credited by ${note.number}`);
      onClose();
    },
  });
  return (
    <FormDialog
      title={`Credit ${statement.number}`}
      error={credit.error}
      isBusy={credit.isPending}
      isDisabled={reason.trim() === ""}
      action="Credit statement"
      onSubmit={() => credit.mutate()}
      onClose={onClose}
    >
      <p>
        A credit note takes back {centsText(statement.total_cents, statement.currency)} of {statement.unit}. Its charges
        may be issued anew.
      </p>
      <Textarea
        label="Reason"
        maxLength={500}
        value={reason}
        onChange={(event) => setReason(event.currentTarget.value)}
        data-autofocus
      />
    </FormDialog>
  );
}
