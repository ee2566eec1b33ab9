import { Button, Select, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useInfiniteQuery, useMutation, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";

import { ApiError } from "../api/client";
import { templatesQuery } from "../templates/queries";
import { Empty, Lines, QueryView } from "../ui/states";
import { toastDone } from "../ui/toast";
import { createSchedule } from "./queries";

/** A new schedule from a template at or below `team`, with values of the members that it leaves free. */
export function ScheduleForm({ team, onDone }: { team: string | undefined; onDone: () => void }) {
  const queryClient = useQueryClient();
  const templates = useInfiniteQuery(templatesQuery(team));
  const form = useForm({
    initialValues: { template: null as string | null, cron: "", zone: "", name: "", gpus: "", limit: "" },
  });
  const known = templates.data?.pages.flatMap(({ items }) => items) ?? [];
  const chosen = known.find(({ id }) => id === form.values.template);
  const locked = new Set<string>(chosen?.locked);
  const isSizeFree = !["gpus", "gpus_per_node", "cpus_per_node", "manifest"].some((name) => locked.has(name));
  const isLimitFree = !locked.has("time_limit") && !locked.has("time_limit_s");
  const save = useMutation({
    mutationFn: () => {
      const { template, cron, zone, name, gpus, limit } = form.values;
      return createSchedule({
        cron,
        ...(zone !== "" && { time_zone: zone }),
        request: {
          template: template ?? "",
          team: chosen?.team ?? "",
          ...(name !== "" && { name }),
          ...(gpus !== "" && isSizeFree && { gpus: Number(gpus) }),
          ...(limit !== "" && isLimitFree && { time_limit: limit }),
        },
      });
    },
    onSuccess: (made) => {
      toastDone(`The schedule ${made.name} is created`);
      void queryClient.invalidateQueries({ queryKey: ["jobs"] });
      onDone();
    },
  });
  const refusals = save.error instanceof ApiError ? save.error.fieldErrors : {};
  return (
    <QueryView query={templates} loading={<Lines count={4} label="Loading templates" />}>
      {() =>
        known.length === 0 ? (
          <Empty cli='tidegate submit --cron "0 3 * * *" FILE'>
            No templates that you may use. Leads of a team write them on the page <Link to="/templates">Templates</Link>.
          </Empty>
        ) : (
          <form className="stack" onSubmit={form.onSubmit(() => save.mutate())}>
            <Select
              label="Template"
              description="Each run takes it as it is then"
              required
              searchable
              allowDeselect={false}
              data-autofocus
              data={known.map(({ id, name, team: path }) => ({ value: id, label: `${name} (${path})` }))}
              {...form.getInputProps("template")}
              error={refusals.template}
            />
            <TextInput
              label="Times"
              description="Minute, hour, day of month, month, day of week: 0 3 * * *"
              required
              maxLength={100}
              {...form.getInputProps("cron")}
              error={refusals.cron}
            />
            <TextInput
              label="Time zone"
              description="Empty: your organization's"
              {...form.getInputProps("zone")}
              error={refusals.time_zone}
            />
            <TextInput
              label="Name"
              description="Of its jobs. Empty: that of the template"
              {...form.getInputProps("name")}
              error={refusals.name}
            />
            {isSizeFree && (
              <TextInput
                label="GPUs"
                description="Empty: as the template says"
                inputMode="numeric"
                {...form.getInputProps("gpus")}
                error={refusals.gpus}
              />
            )}
            {isLimitFree && (
              <TextInput
                label="Time limit"
                description="4h, 2d. Empty: as the template says"
                {...form.getInputProps("limit")}
                error={refusals.time_limit}
              />
            )}
            {save.error && (
              <p className="bad-text" role="alert">
                {save.error.message}
              </p>
            )}
            <div className="inline end">
              <Button type="submit" loading={save.isPending}>
                Create
              </Button>
            </div>
          </form>
        )
      }
    </QueryView>
  );
}
