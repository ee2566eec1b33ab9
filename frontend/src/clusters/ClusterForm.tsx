import { Button, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { useState, type ReactNode } from "react";

import { ApiError, client, unwrap } from "../api/client";
import type { Cluster, ClusterRequest } from "../api/types";
import { toastDone } from "../ui/toast";
import { fieldOf, type Reading } from "./options";

type Kind = ClusterRequest["kind"];
export type ErrorOf = (field: string) => string | undefined;

/**
 * What the forms of all kinds of cluster have in common: the name of a new cluster or the one whose options
 * are replaced, sending, and where a refusal is shown. `fields` are those that show refusals themselves.
 */
export function ClusterForm({
  kind,
  reading: { options, problems },
  fields,
  cluster,
  children,
}: {
  kind: Kind;
  reading: Reading;
  fields: readonly string[];
  cluster?: Cluster;
  children: (errorOf: ErrorOf) => ReactNode;
}) {
  const navigate = useNavigate();
  const queryClient = useQueryClient();
  const form = useForm({ initialValues: { name: cluster?.name ?? "" } });
  const name = form.values.name.trim();
  const [isTried, setTried] = useState(false);
  const save = useMutation({
    mutationFn: () =>
      unwrap(
        cluster === undefined
          ? client.POST("/api/v1/clusters", { body: { name, kind, options, is_enabled: true } })
          : client.PATCH("/api/v1/clusters/{cluster_id}", {
              params: { path: { cluster_id: cluster.id } },
              body: { options },
            }),
      ),
    onSuccess: (saved) => {
      toastDone(cluster === undefined ? `Cluster ${saved.name} was added` : `The options of ${saved.name} were replaced`);
      void queryClient.invalidateQueries({ queryKey: ["clusters"] });
      if (cluster === undefined) void navigate({ to: "/clusters/$name", params: { name: saved.name } });
    },
  });
  const refusals = save.error instanceof ApiError ? save.error.fieldErrors : {};
  const refused = fieldOf(refusals.options ?? "");
  const errorOf: ErrorOf = (field) =>
    (isTried ? problems[field] : undefined) ?? (refused === field ? refusals.options : undefined);
  const isShown = refusals.name !== undefined || (refused !== null && fields.includes(refused));
  return (
    <form
      noValidate
      className={cluster === undefined ? "card stack form-width" : "stack form-width"}
      onSubmit={form.onSubmit(() => {
        setTried(true);
        if (Object.keys(problems).length === 0 && name !== "") save.mutate();
      })}
    >
      {cluster === undefined && (
        <TextInput
          label="Name"
          description="How it is called here: lower-case letters, digits and -."
          placeholder="hpc"
          required
          maxLength={63}
          {...form.getInputProps("name")}
          error={refusals.name ?? (isTried && name === "" ? "is needed" : undefined)}
        />
      )}
      {children(errorOf)}
      {save.error && !isShown && (
        <p className="bad-text" role="alert">
          {refusals.options ?? save.error.message}
        </p>
      )}
      {isTried && Object.keys(problems).length > 0 && (
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
