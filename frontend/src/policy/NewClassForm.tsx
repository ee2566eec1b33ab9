import { Button, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useMutation } from "@tanstack/react-query";

import { ApiError, client, unwrap } from "../api/client";
import { toastDone } from "../ui/toast";
import { CLASS_FIELDS, PRICE_FIELD, readField, type Typed, type Value } from "./fields";
import { RuleInput } from "./RulesForm";

/** What a new class is if nothing else is typed. */
const AT_FIRST: Record<string, Typed> = {
  name: "",
  description: "",
  order: "50",
  grace_period_s: "5m",
  team_cap_mgpu: "",
  preempts_within_team: false,
  preempts_across_teams: false,
  price_multiplier_ppm: "1",
};

/** A priority class that there is not yet. */
export function NewClassForm({
  organization,
  mayPrice,
  onMade,
}: {
  organization: string;
  mayPrice: boolean;
  onMade: () => void;
}) {
  const form = useForm({ initialValues: AT_FIRST });
  const name = String(form.values.name);
  const fields = [...CLASS_FIELDS, ...(mayPrice ? [PRICE_FIELD] : [])].filter((field) => field.name in AT_FIRST);
  const reads = fields.map((field) => {
    const now = form.values[field.name] ?? "";
    return { field, now, read: readField(field, now) };
  });
  const make = useMutation({
    mutationFn: () =>
      unwrap(
        client.POST("/api/v1/priority-classes", {
          body: {
            organization,
            name: name.trim(),
            ...(Object.fromEntries(
              reads.flatMap(({ field, read }) => ("value" in read ? [[field.name, read.value]] : [])),
            ) as Record<string, Value> & { order: number }),
          },
        }),
      ),
    onSuccess: (made) => {
      toastDone(`${made.name} is a class of ${organization}: jobs can be of it now`);
      onMade();
    },
  });
  const refusals = make.error instanceof ApiError ? make.error.fieldErrors : {};
  const isReady = name.trim() !== "" && reads.every(({ read }) => "value" in read);
  return (
    <form
      className="stack"
      onSubmit={form.onSubmit(() => {
        if (isReady) make.mutate();
      })}
    >
      <div className="even top">
        <TextInput
          label="Name"
          description="Lower case letters, digits and hyphens; it stands in scripts and never changes."
          required
          maxLength={63}
          spellCheck={false}
          autoCapitalize="none"
          {...form.getInputProps("name")}
          error={refusals["name"]}
        />
        {reads.map(({ field, now, read }) => (
          <RuleInput
            key={field.name}
            field={field}
            typed={now}
            paths={[]}
            error={("error" in read ? read.error : undefined) ?? refusals[field.name]}
            onChange={(value) => form.setFieldValue(field.name, value)}
          />
        ))}
      </div>
      {make.error && (
        <p className="bad-text" role="alert">
          {make.error.message}
        </p>
      )}
      <div className="inline">
        <Button type="submit" loading={make.isPending} disabled={!isReady}>
          Add the class
        </Button>
      </div>
    </form>
  );
}
