import { Button, Select, Textarea, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";

import { ApiError } from "../api/client";
import { clustersQuery, treeQuery } from "../api/queries";
import type { Announcement } from "../api/types";
import { may } from "../session/access";
import { useSession } from "../session/useSession";
import { utcOfLocal } from "../ui/localTime";
import { announce } from "./queries";
import { LEVELS } from "./words";

const EVERYBODY = "everybody";

/** A new announcement. Times are of this browser's zone. */
export function AnnouncementForm({ onMade }: { onMade: () => void }) {
  const session = useSession();
  const queryClient = useQueryClient();
  const isAdministrator = may(session, "manage_clusters");
  const tree = useQuery(treeQuery).data ?? [];
  const clusters = useQuery({ ...clustersQuery, enabled: isAdministrator }).data ?? [];
  const nodes = tree.filter(({ path }) => may(session, "manage_members", path));
  const form = useForm({
    initialValues: {
      text: "",
      level: "info" as Announcement["level"],
      place: isAdministrator ? EVERYBODY : (nodes[0]?.path ?? ""),
      start: "",
      end: "",
    },
  });
  const make = useMutation({
    mutationFn: () => {
      const { text, level, place, start, end } = form.values;
      const cluster = clusters.find(({ name }) => `cluster ${name}` === place)?.name;
      return announce({
        text,
        level,
        cluster,
        node: place === EVERYBODY || cluster !== undefined ? null : place,
        start: utcOfLocal(start),
        end: utcOfLocal(end),
      });
    },
    onSuccess: () => {
      void queryClient.invalidateQueries({ queryKey: ["announcements"] });
      onMade();
    },
  });
  const refusals = make.error instanceof ApiError ? make.error.fieldErrors : {};
  const everybody = isAdministrator ? [EVERYBODY, ...clusters.map(({ name }) => `cluster ${name}`)] : [];
  return (
    <form className="stack" onSubmit={form.onSubmit(() => make.mutate())}>
      <Textarea label="Text" required data-autofocus {...form.getInputProps("text")} error={refusals.text} />
      <Select label="Level" allowDeselect={false} data={[...LEVELS]} {...form.getInputProps("level")} />
      <Select
        label="For"
        searchable
        allowDeselect={false}
        data={[...everybody, ...nodes.map(({ path }) => path)]}
        {...form.getInputProps("place")}
        error={refusals.node ?? refusals.cluster}
      />
      <TextInput label="From" description="Empty: at once" type="datetime-local" {...form.getInputProps("start")} error={refusals.start} />
      <TextInput label="Until" description="Empty: until it is removed" type="datetime-local" {...form.getInputProps("end")} error={refusals.end} />
      {make.error && (
        <p className="bad-text" role="alert">
          {make.error.message}
        </p>
      )}
      <div className="inline end">
        <Button type="submit" loading={make.isPending}>
          Announce
        </Button>
      </div>
    </form>
  );
}
