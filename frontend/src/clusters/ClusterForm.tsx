import { Button, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";

import { ApiError, client, unwrap } from "../api/client";
import type { Cluster, ClusterKind, ClusterRequest } from "../api/types";
import { CliLine } from "../ui/CliLine";
import { toastDone } from "../ui/toast";
import { ConnectionTest } from "./ConnectionTest";
import { fieldsOf, placeOf, readFields, type Problems, type Schema } from "./schema";
import { SchemaFields, type ClusterFields } from "./SchemaFields";

const OPTIONS = "options";

/** A new cluster of a kind, or other options of one that is there. */
export function ClusterForm({ kind, cluster }: { kind: ClusterKind; cluster?: Cluster }) {
  const navigate = useNavigate();
  const queryClient = useQueryClient();
  const schema: Schema = kind.options_schema;
  const form = useForm<ClusterFields>({
    initialValues: { name: cluster?.name ?? "", options: fieldsOf(schema, cluster?.options ?? {}) },
    validate: ({ name, options }) => {
      const problems: Problems = name.trim() === "" ? { name: "is needed" } : {};
      readFields(schema, options, OPTIONS, problems);
      return problems;
    },
  });
  const save = useMutation({
    mutationFn: (values: ClusterFields) => {
      const options = readFields(schema, values.options, OPTIONS, {});
      return unwrap(
        cluster === undefined
          ? client.POST("/api/v1/clusters", {
              body: { name: values.name.trim(), kind: kind.name as ClusterRequest["kind"], options, is_enabled: true },
            })
          : client.PATCH("/api/v1/clusters/{cluster_id}", {
              params: { path: { cluster_id: cluster.id } },
              body: { options },
            }),
      );
    },
    onError: (error) => form.setErrors(refusals(error, form.values, schema).placed),
    onSuccess: (saved) => {
      toastDone(cluster === undefined ? `Cluster ${saved.name} was added` : `The options of ${saved.name} were replaced`);
      void queryClient.invalidateQueries({ queryKey: ["clusters"] });
      if (cluster === undefined) void navigate({ to: "/clusters/$name", params: { name: saved.name } });
    },
  });
  const test = useMutation({
    mutationFn: () => {
      const options = readFields(schema, form.values.options, OPTIONS, {});
      return unwrap(
        cluster === undefined
          ? client.POST("/api/v1/clusters/check", { body: { kind: kind.name as ClusterRequest["kind"], options } })
          : client.POST("/api/v1/clusters/{cluster_id}/check", {
              params: { path: { cluster_id: cluster.id } },
              body: { options },
            }),
      );
    },
    onError: (error) => form.setErrors(refusals(error, form.values, schema).placed),
  });
  const { placed, others } = refusals(test.error ?? save.error, form.values, schema);
  const isIncomplete = Object.keys(form.errors).some((place) => !(place in placed));
  return (
    <form
      noValidate
      className={cluster === undefined ? "card stack form-width" : "stack form-width"}
      onSubmit={form.onSubmit((values) => {
        test.reset();
        save.mutate(values);
      })}
    >
      {cluster === undefined && (
        <TextInput
          label="Name"
          description="Its name in the portal: lower-case letters, digits and -."
          placeholder="hpc"
          required
          maxLength={63}
          {...form.getInputProps("name")}
        />
      )}
      <SchemaFields schema={schema} fields={form.values.options} place={OPTIONS} form={form} />
      <ConnectionTest test={test} />
      <CliLine
        command={
          cluster === undefined
            ? `tidegate cluster test --kind ${kind.name} --options FILE`
            : `tidegate cluster set ${cluster.name} --options FILE`
        }
      />
      {others.map((each) => (
        <p key={each} className="bad-text" role="alert">
          {each}
        </p>
      ))}
      {isIncomplete && (
        <p className="bad-text" role="alert">
          Something is missing above, or is not as it must be.
        </p>
      )}
      <div className="inline end">
        {cluster === undefined && (
          <Link to="/clusters" className="button-like">
            Back
          </Link>
        )}
        <Button type="submit" loading={save.isPending}>
          {cluster === undefined ? "Add the cluster" : "Replace the options"}
        </Button>
      </div>
    </form>
  );
}

/** What the server refused: by place in the form, and what no field shows. */
function refusals(error: unknown, values: ClusterFields, schema: Schema): { placed: Problems; others: string[] } {
  const placed: Problems = {};
  const others: string[] = [];
  const errors = error instanceof ApiError ? (error.problem.errors ?? []) : [];
  for (const { pointer, detail } of errors) {
    const [first, ...rest] = pointer
      .split("/")
      .slice(1)
      .map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"));
    const place = first === OPTIONS ? placeOf(schema, values.options, rest, OPTIONS) : first === "name" ? first : null;
    if (place === null) others.push(detail);
    else placed[place] = place in placed ? `${placed[place]} ${detail}` : detail;
  }
  if (errors.length === 0 && error instanceof Error) others.push(error.message);
  return { placed, others };
}
