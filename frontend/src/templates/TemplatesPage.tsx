import { Button } from "@mantine/core";
import { useInfiniteQuery, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useSearch } from "@tanstack/react-router";
import { useState } from "react";

import { client, unwrap } from "../api/client";
import { treeQuery } from "../api/queries";
import type { JobTemplate } from "../api/types";
import { teamsWhereIMay } from "../session/access";
import { useSession } from "../session/useSession";
import { shellQuote } from "../ui/command";
import { Confirm } from "../ui/Confirm";
import { DataTable } from "../ui/DataTable";
import { Page } from "../ui/Page";
import { PagedCard } from "../ui/PagedCard";
import { Empty } from "../ui/states";
import { Time } from "../ui/Time";
import { toastDone, toastError } from "../ui/toast";
import { templatesQuery } from "./queries";
import { TemplateDialog } from "./TemplateDialog";

/** Requests from which the jobs of a team are submitted; its leads write them. */
export function TemplatesPage() {
  const { scope } = useSearch({ from: "/shell/templates" });
  const session = useSession();
  const tree = useQuery(treeQuery);
  const templates = useInfiniteQuery(templatesQuery(scope));
  const [edited, setEdited] = useState<JobTemplate | "new" | null>(null);
  const teams = teamsWhereIMay(session, "manage_jobs", tree.data ?? []).map((node) => node.path);
  return (
    <Page
      title="Templates"
      lead="A template has the members of a job. Submissions keep the locked ones and may change the others."
      actions={
        teams.length > 0 && (
          <Button variant="default" onClick={() => setEdited("new")}>
            New template
          </Button>
        )
      }
    >
      <PagedCard
        query={templates}
        label="templates"
        lines={5}
        command={scope === undefined ? "tidegate templates list" : `tidegate templates list --team ${shellQuote(scope)}`}
        empty={
          <Empty cli="tidegate templates set NAME --file job.yaml --lock gpus">
            No templates. Team leads create them.
          </Empty>
        }
      >
        {(items) => <TemplateTable templates={items} onEdit={setEdited} />}
      </PagedCard>
      {edited !== null && (
        <TemplateDialog
          key={edited === "new" ? "new" : edited.id}
          template={edited === "new" ? null : edited}
          teams={teams}
          onClose={() => setEdited(null)}
        />
      )}
    </Page>
  );
}

function TemplateTable({
  templates,
  onEdit,
}: {
  templates: readonly JobTemplate[];
  onEdit: (template: JobTemplate) => void;
}) {
  return (
    <DataTable
      label="Templates"
      rows={templates}
      rowKey={(template) => template.id}
      columns={[
        {
          header: "Template",
          isHeading: true,
          cell: (template) => (
            <>
              <Link to="/submit" search={{ scope: template.team, template: template.id }}>
                {template.name}
              </Link>
              {template.description !== "" && <div className="small dim breaks">{template.description}</div>}
              <div className="small faint">{template.team}</div>
            </>
          ),
        },
        {
          header: "Locked",
          cell: (template) =>
            template.locked.length === 0 ? (
              <span className="faint">nothing</span>
            ) : (
              <span className="mono small">{template.locked.join(", ")}</span>
            ),
        },
        { header: "Changed", cell: (template) => <Time at={template.changed_at} /> },
        { header: "Actions", cell: (template) => <Actions template={template} onEdit={onEdit} /> },
      ]}
    />
  );
}

function Actions({ template, onEdit }: { template: JobTemplate; onEdit: (template: JobTemplate) => void }) {
  const queryClient = useQueryClient();
  const [isAsked, setAsked] = useState(false);
  const remove = useMutation({
    mutationFn: () =>
      unwrap(
        client.DELETE("/api/v1/job-templates/{template_id}", {
          params: { path: { template_id: template.id }, header: { "If-Match": `"v${template.version}"` } },
        }),
      ),
    onSuccess: () => {
      toastDone(`${template.name} is deleted`);
      setAsked(false);
      void queryClient.invalidateQueries({ queryKey: ["templates"] });
    },
    onError: (error) => {
      toastError(error);
      setAsked(false);
    },
  });
  return (
    <div className="inline">
      {template.can.includes("change") && (
        <Button size="xs" variant="default" aria-label={`Edit ${template.name}`} onClick={() => onEdit(template)}>
          Edit
        </Button>
      )}
      {template.can.includes("delete") && (
        <Button size="xs" variant="default" aria-label={`Delete ${template.name}`} onClick={() => setAsked(true)}>
          Delete
        </Button>
      )}
      <Confirm
        isOpen={isAsked}
        title={`Delete ${template.name}?`}
        isBusy={remove.isPending}
        isDangerous
        confirmLabel="Delete it"
        onConfirm={() => remove.mutate()}
        onClose={() => setAsked(false)}
      >
        Jobs that were submitted from it stay. New submissions cannot name it.
      </Confirm>
    </div>
  );
}
