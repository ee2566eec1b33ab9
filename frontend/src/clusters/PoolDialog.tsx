import { Button, Modal, NumberInput, Select, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { useMutation } from "@tanstack/react-query";

import { ApiError, client, unwrap } from "../api/client";
import type { Pool } from "../api/types";
import { CliLine } from "../ui/CliLine";
import { commandLine, shellQuote } from "../ui/command";
import { toastDone } from "../ui/toast";
import { useReturnFocus } from "../ui/useReturnFocus";
import { useFleetChanged } from "./useFleetChanged";

const DEVICES = [
  { value: "gpu", label: "GPUs" },
  { value: "cpu", label: "CPU cores" },
];

/** The worth of one device of a new pool. */
const WORTH_PERMILLE = { gpu: 1000, cpu: 10 };

/** A new pool, or the settings of one that is there. */
export function PoolDialog({ pool, onClose }: { pool?: Pool; onClose: () => void }) {
  useReturnFocus();
  const changed = useFleetChanged();
  const form = useForm({
    initialValues: {
      name: pool?.name ?? "",
      description: pool?.description ?? "",
      device: pool?.device ?? "gpu",
      weight: pool?.weight ?? (WORTH_PERMILLE.gpu as number | string),
      aliases: pool?.aliases.join(", ") ?? "",
    },
    validate: {
      name: (name) => (name.trim() === "" ? "is needed" : null),
      weight: (weight) => (weight === "" ? "is needed" : null),
    },
  });
  const save = useMutation({
    mutationFn: ({ name, description, device, weight, aliases }: typeof form.values) => {
      const body = {
        description: description.trim(),
        device,
        weight: Number(weight),
        aliases: namesIn(aliases),
      };
      return unwrap(
        pool === undefined
          ? client.POST("/api/v1/pools", { body: { name: name.trim(), ...body } })
          : client.PATCH("/api/v1/pools/{pool_id}", { params: { path: { pool_id: pool.id } }, body }),
      );
    },
    onSuccess: (saved) => {
      toastDone(pool === undefined ? `Pool ${saved.name} was added` : `${saved.name} is changed`);
      changed();
      onClose();
    },
    onError: (error) => form.setErrors(refusalsOf(error)),
  });
  const { name, description, device, weight, aliases } = form.values;
  const unplaced = save.error && Object.keys(refusalsOf(save.error)).length === 0 ? save.error.message : undefined;
  const title = pool === undefined ? "Add a pool" : `Change ${pool.name}`;
  return (
    <Modal opened onClose={onClose} title={title} closeButtonProps={{ "aria-label": "Close" }}>
      <form noValidate className="stack" onSubmit={form.onSubmit((values) => save.mutate(values))}>
        {pool === undefined && (
          <TextInput
            label="Name"
            description="Clusters report their nodes under it. Lower-case letters, digits, dots and -. It never changes."
            placeholder="h100"
            required
            maxLength={63}
            data-autofocus
            {...form.getInputProps("name")}
          />
        )}
        <TextInput label="Description" placeholder="H100 80 GB" maxLength={200} {...form.getInputProps("description")} />
        <Select
          label="Devices"
          description="Fixed once nodes, quotas or jobs use the pool."
          data={DEVICES}
          allowDeselect={false}
          {...form.getInputProps("device")}
          onChange={(device) => {
            if (device === null) return;
            const next = device as Pool["device"];
            form.setFieldValue("device", next);
            if (pool === undefined && !form.isTouched("weight")) form.setFieldValue("weight", WORTH_PERMILLE[next]);
          }}
        />
        <NumberInput
          label="Worth of one device"
          description="Per mille of the reference GPU: 1000 is as much."
          min={1}
          max={1_000_000}
          allowDecimal={false}
          thousandSeparator=","
          {...form.getInputProps("weight")}
        />
        <TextInput
          label="Aliases"
          description="Other names of its GPUs, with commas between them: nvidia_h100_80gb_hbm3, h100-sxm."
          {...form.getInputProps("aliases")}
        />
        {unplaced !== undefined && (
          <p className="bad-text breaks" role="alert">
            {unplaced}
          </p>
        )}
        <CliLine
          command={commandLine(`tidegate pool ${pool === undefined ? "create" : "set"} ${shellQuote(name.trim() || "NAME")}`, {
            description: description.trim(),
            device,
            weight: String(weight),
            alias: pool === undefined ? namesIn(aliases) : [],
          })}
        />
        <div className="inline end">
          <Button variant="default" onClick={onClose}>
            Back
          </Button>
          <Button type="submit" loading={save.isPending}>
            {pool === undefined ? "Add the pool" : "Save"}
          </Button>
        </div>
      </form>
    </Modal>
  );
}

function refusalsOf(error: Error): Record<string, string> {
  return error instanceof ApiError ? error.fieldErrors : {};
}

/** Names with commas between them. */
function namesIn(text: string): string[] {
  return text.split(",").flatMap((name) => name.trim() || []);
}
