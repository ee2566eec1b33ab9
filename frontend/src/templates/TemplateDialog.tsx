import { Button, Modal, MultiSelect, Select, Textarea, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useMutation, useQueryClient } from "@tanstack/react-query";

import { ApiError, client, unwrap } from "../api/client";
import type { JobTemplate } from "../api/types";
import { newIdempotencyKey } from "../submit/draft";
import { readYaml, yamlOf } from "../submit/yamlRequest";
import { toastDone } from "../ui/toast";

const FIRST_YAML = "gpus: 8\ntime_limit: 12h\nscript: |\n  #!/bin/bash\n  python train.py\n";

/** Makes a template, or changes one: its request in YAML, and the members that it locks. */
export function TemplateDialog({
  template,
  teams,
  onClose,
}: {
  template: JobTemplate | null;
  teams: readonly string[];
  onClose: () => void;
}) {
  const queryClient = useQueryClient();
  const form = useForm({
    initialValues: {
      team: template?.team ?? (teams.length === 1 ? (teams[0] ?? null) : null),
      name: template?.name ?? "",
      description: template?.description ?? "",
      yaml: template === null ? FIRST_YAML : yamlOf(template.request),
      locked: template?.locked ?? [],
    },
  });
  const { team, name, description, yaml, locked } = form.values;
  // A template has no team among its members. The reader of requests wants one.
  const read = readYaml(yaml, "any");
  const members = Object.keys(read.request ?? {}).filter((member) => member !== "team");
  const save = useMutation({
    mutationFn: () => {
      const request = Object.fromEntries(Object.entries(read.request ?? {}).filter(([member]) => member !== "team"));
      const edit = { name, description, request, locked: locked.filter((member) => members.includes(member)) };
      if (template !== null) {
        return unwrap(
          client.PATCH("/api/v1/job-templates/{template_id}", {
            params: { path: { template_id: template.id }, header: { "If-Match": `"v${template.version}"` } },
            body: edit as never,
          }),
        );
      }
      return unwrap(
        client.POST("/api/v1/job-templates", {
          params: { header: { "Idempotency-Key": newIdempotencyKey() } },
          body: { team: team ?? "", ...edit } as never,
        }),
      );
    },
    onSuccess: (saved) => {
      toastDone(`${saved.name} is saved`);
      void queryClient.invalidateQueries({ queryKey: ["templates"] });
      onClose();
    },
  });
  const refused = save.error instanceof ApiError ? Object.entries(save.error.fieldErrors) : [];
  return (
    <Modal
      opened
      onClose={onClose}
      size="lg"
      title={template === null ? "New template" : `Edit ${template.name}`}
      closeButtonProps={{ "aria-label": "Close" }}
    >
      <form className="stack" noValidate onSubmit={form.onSubmit(() => save.mutate())}>
        <Select
          label="Team"
          required
          searchable
          allowDeselect={false}
          disabled={template !== null}
          data={template === null ? [...teams] : [template.team]}
          {...form.getInputProps("team")}
        />
        <TextInput label="Name" required maxLength={100} {...form.getInputProps("name")} />
        <TextInput
          label="Description"
          description="A sentence for people who submit from it."
          maxLength={500}
          {...form.getInputProps("description")}
        />
        <Textarea
          label="Request in YAML"
          description="Members of a job request, without team. The page of a job has its request under YAML."
          autosize
          minRows={8}
          maxRows={20}
          spellCheck={false}
          classNames={{ input: "mono" }}
          error={read.error}
          {...form.getInputProps("yaml")}
        />
        <MultiSelect
          label="Locked members"
          description="A submission may not change these."
          data={members}
          {...form.getInputProps("locked")}
          value={locked.filter((member) => members.includes(member))}
        />
        {save.error && (
          <div role="alert" className="bad-text">
            <p>{save.error.message}</p>
            {refused.map(([pointer, detail]) => (
              <p key={pointer}>
                {pointer.replace(/^request\//, "")}: {detail}
              </p>
            ))}
          </div>
        )}
        <div className="inline end">
          <Button variant="default" onClick={onClose}>
            Back
          </Button>
          <Button
            type="submit"
            loading={save.isPending}
            disabled={team === null || name.trim() === "" || read.request === null}
          >
            Save
          </Button>
        </div>
      </form>
    </Modal>
  );
}
