import { Button, Menu, Modal, Select, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";

import { client, unwrap } from "../api/client";
import { treeQuery } from "../api/queries";
import type { SavedView } from "../api/types";
import { teamsWhereIMay } from "../session/access";
import { useSession } from "../session/useSession";
import { newIdempotencyKey } from "../submit/draft";
import { Confirm } from "../ui/Confirm";
import { toastDone, toastError } from "../ui/toast";
import { parametersOf, savedViewsQuery, searchOfView } from "./savedViews";
import type { JobsSearch } from "./search";

/** The saved views of the list: open one, save the list as it is, delete one. */
export function SavedViews({ filters }: { filters: JobsSearch & { scope?: string } }) {
  const views = useQuery(savedViewsQuery).data ?? [];
  const [isSaving, setSaving] = useState(false);
  const [deleted, setDeleted] = useState<SavedView | null>(null);
  const own = views.filter((view) => view.shared_with === null);
  const shared = views.filter((view) => view.shared_with !== null);
  const items = (list: readonly SavedView[]) =>
    list.map((view) => (
      <Menu.Item
        key={view.id}
        renderRoot={(props) => <Link to="/jobs" search={searchOfView(view.parameters)} {...props} />}
      >
        {view.name}
        {view.shared_with !== null && <span className="small faint"> {view.shared_with}</span>}
      </Menu.Item>
    ));
  const deletable = views.filter(({ can }) => can.includes("delete"));
  return (
    <>
      <Menu position="bottom-end" withinPortal={false}>
        <Menu.Target>
          <Button className="fit" variant="default">
            Views
          </Button>
        </Menu.Target>
        <Menu.Dropdown>
          {own.length > 0 && <Menu.Label>My views</Menu.Label>}
          {items(own)}
          {shared.length > 0 && <Menu.Label>Shared</Menu.Label>}
          {items(shared)}
          {views.length > 0 && <Menu.Divider />}
          <Menu.Item onClick={() => setSaving(true)}>Save this view</Menu.Item>
          {deletable.map((view) => (
            <Menu.Item key={view.id} c="var(--bad)" onClick={() => setDeleted(view)}>
              Delete {view.name}
            </Menu.Item>
          ))}
        </Menu.Dropdown>
      </Menu>
      {isSaving && <SaveDialog filters={filters} onClose={() => setSaving(false)} />}
      {deleted !== null && <DeleteDialog view={deleted} onClose={() => setDeleted(null)} />}
    </>
  );
}

function SaveDialog({ filters, onClose }: { filters: JobsSearch & { scope?: string }; onClose: () => void }) {
  const queryClient = useQueryClient();
  const session = useSession();
  const tree = useQuery(treeQuery);
  const teams = teamsWhereIMay(session, "submit_jobs", tree.data ?? []).map((node) => node.path);
  const form = useForm({ initialValues: { name: "", team: null as string | null } });
  const save = useMutation({
    mutationFn: () =>
      unwrap(
        client.POST("/api/v1/job-views", {
          params: { header: { "Idempotency-Key": newIdempotencyKey() } },
          body: { name: form.values.name.trim(), parameters: parametersOf(filters), share_with: form.values.team },
        }),
      ),
    onSuccess: (saved) => {
      toastDone(`${saved.name} is saved`);
      void queryClient.invalidateQueries({ queryKey: savedViewsQuery.queryKey });
      onClose();
    },
  });
  return (
    <Modal opened onClose={onClose} title="Save this view" closeButtonProps={{ "aria-label": "Close" }}>
      <form className="stack" noValidate onSubmit={form.onSubmit(() => save.mutate())}>
        <p className="sub">The view has the filters, the order and the columns of the list.</p>
        <TextInput
          label="Name"
          required
          maxLength={100}
          data-autofocus
          error={save.error?.message}
          {...form.getInputProps("name")}
        />
        {teams.length > 0 && (
          <Select
            label="Share with"
            description="The people of this team see the view. Without a team, it is yours alone."
            placeholder="nobody"
            clearable
            searchable
            data={teams}
            {...form.getInputProps("team")}
          />
        )}
        <div className="inline end">
          <Button variant="default" onClick={onClose}>
            Back
          </Button>
          <Button type="submit" loading={save.isPending} disabled={form.values.name.trim() === ""}>
            Save
          </Button>
        </div>
      </form>
    </Modal>
  );
}

function DeleteDialog({ view, onClose }: { view: SavedView; onClose: () => void }) {
  const queryClient = useQueryClient();
  const remove = useMutation({
    mutationFn: () => unwrap(client.DELETE("/api/v1/job-views/{view_id}", { params: { path: { view_id: view.id } } })),
    onSuccess: () => {
      toastDone(`${view.name} is deleted`);
      void queryClient.invalidateQueries({ queryKey: savedViewsQuery.queryKey });
      onClose();
    },
    onError: (error) => {
      toastError(error);
      onClose();
    },
  });
  return (
    <Confirm
      isOpen
      title={`Delete ${view.name}?`}
      isBusy={remove.isPending}
      isDangerous
      confirmLabel="Delete it"
      onConfirm={() => remove.mutate()}
      onClose={onClose}
    >
      {view.shared_with === null ? "It is your own view." : `The people of ${view.shared_with} lose it, too.`}
    </Confirm>
  );
}
