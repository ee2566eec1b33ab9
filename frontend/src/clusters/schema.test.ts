import { describe, expect, it } from "vitest";

import kinds from "../../mock/cluster-kinds.json" with { type: "json" };
import { fieldsOf, placeOf, readFields, rowOf, type Fields, type Problems, type Schema } from "./schema";

/** What GET /cluster-kinds gives, as the server's code wrote it. */
function schemaOf(kind: string): Schema {
  const found = kinds.find(({ name }) => name === kind);
  if (!found) throw new Error(`there is a kind ${kind}`);
  return found.options_schema as unknown as Schema;
}

function read(schema: Schema, fields: Fields): { options: Record<string, unknown>; problems: Problems } {
  const problems: Problems = {};
  return { options: readFields(schema, fields, "options", problems), problems };
}

/** What is sent after the options were shown in the form. */
const sent = (kind: string, options: Record<string, unknown>) => read(schemaOf(kind), fieldsOf(schemaOf(kind), options));

const KUBERNETES = {
  kubeconfig: "/etc/k",
  context: "prod",
  kind: "jobset",
  mode: "shared",
  unlabelled: "refuse",
  pools: {
    h100: {
      node_selector: { "nvidia.com/gpu.product": "H100", zone: "" },
      image: "nvcr.io/x:1",
      flavor: "big",
      resource: "nvidia.com/mig-1g.10gb",
      mgpu_per_unit: 125,
      device_class: "gpu.nvidia.com",
      cpu_per_gpu: 8,
      memory_mib_per_gpu: 4096,
      topology_name: "fabric",
      topology_levels: ["block", "rack"],
      topology_domains: { block: "block", nvlink: "rack" },
      required_topology: "rack",
      tolerations: [
        { key: "gpu", operator: "Exists", effect: "NoSchedule" },
        { key: "team", value: "ml" },
      ],
      runtime_class: "nvidia",
    },
    a100: { preferred_topology: "block" },
    batch: {
      node_selector: { kind: "batch" },
      device: "cpu",
      memory_mib_per_core: 4000,
      reserved_cpu_milli: 500,
    },
  },
  allowed_registries: ["nvcr.io", "docker.io/pytorch"],
  require_digest: true,
  log_root: "/var/logs",
  pull_secrets: ["registry"],
  run_as_user: 2000,
  exempt: ["system:serviceaccount:monitoring:agent"],
  operators: ["system:serviceaccount:jobs:one", "system:serviceaccount:jobs:two"],
  features: { nvlink: "nvidia.com/nvlink=true", ib: "ib" },
};
const SLURM = {
  url: "http://s:1",
  service_user: "tg",
  token_socket: "/s",
  tag_secret_file: "/f",
  pools: {
    h100: { partition: "gpu", gres_type: "h100", constraint: "ib" },
    cpu: { partition: "cpu", device: "cpu", memory_mb_per_core: 100 },
  },
  settle_s: 30,
  api_version: "v0.0.40",
  containers: "pyxis",
  container_mounts: ["/data", "/scratch/{user}"],
};
const LOCAL = {
  root: "/var/lib/local",
  nodes: [
    { pool: "l4", count: 2, shared: true, features: ["ib"] },
    { pool: "cpu", cores: 64, prefix: "c-" },
  ],
  use_real_gpus: false,
  isolation: "off",
  run_as: { "ana@acme": "ana" },
  folders: ["/data/my set", "/a, b"],
  limits: { processes: 100 },
};

describe("options of a cluster", () => {
  // Planted: lists cut at spaces and commas; the default of a choice sent; a pair cut at its last "="; the free value of a choice not read.
  it.each([
    ["kubernetes", KUBERNETES],
    ["kubernetes", { in_cluster: true, scheduler: "volcano", queue: "gpu", allowed_registries: [], pools: { h100: {} } }],
    ["kubernetes", { kubeconfig: "/k", pools: { h100: {} } }],
    ["slurm", SLURM],
    ["local", LOCAL],
  ])("of kind %s are the same after they were shown in the form", (kind, options) => {
    expect(sent(kind, options)).toEqual({ options, problems: {} });
  });

  it("may be one group instead of a list", () => {
    expect(sent("local", { root: "/r", nodes: { count: 3 } }).options).toEqual({ root: "/r", nodes: [{ count: 3 }] });
  });

  it("leave out what is a default", () => {
    const defaults = { mode: "arbiter", scheduler: "kueue", work_mib: 102_400, require_digest: false, features: {} };
    expect(sent("kubernetes", { kubeconfig: "/k", pools: { h100: { resource: "nvidia.com/gpu" } }, ...defaults }).options).toEqual({
      kubeconfig: "/k",
      pools: { h100: {} },
    });
  });

  // Planted: an option sent that does not apply.
  it("leave out what belongs to another choice", () => {
    const ofOthers = ["kubeconfig", "context", "kind", "mode", "unlabelled", "exempt", "operators"];
    const others = Object.fromEntries(Object.entries(KUBERNETES).filter(([name]) => !ofOthers.includes(name)));
    expect(sent("kubernetes", { ...KUBERNETES, scheduler: "kai", in_cluster: true }).options).toEqual({
      ...others,
      in_cluster: true,
      scheduler: "kai",
    });
    const cores = { device: "cpu", node_selector: { a: "b" }, cpu_per_gpu: 8, runtime_class: "runc" };
    expect(sent("kubernetes", { kubeconfig: "/k", pools: { c: cores } }).options.pools).toEqual({
      c: { device: "cpu", node_selector: { a: "b" }, runtime_class: "runc" },
    });
  });

  // Planted: a name that is there twice, and an option that is required only at times, let through.
  it("say by place what cannot be sent", () => {
    expect(sent("kubernetes", {}).problems).toEqual({
      "options.kubeconfig": "is needed",
      "options.pools.0.name": "is needed",
    });
    expect(sent("kubernetes", { in_cluster: true, pools: { h: {} } }).problems).toEqual({});
    const slurm = schemaOf("slurm");
    const fields = fieldsOf(slurm, { ...SLURM, cpus_per_gpu: 8.5, pools: { h: { partition: "gpu" } } });
    const [row] = fields.pools as [ReturnType<typeof rowOf>];
    expect(read(slurm, { ...fields, pools: [row, row] }).problems).toEqual({
      "options.cpus_per_gpu": "must be a whole number",
      "options.pools.0.fields.gres_type": "is needed",
      "options.pools.1.fields.gres_type": "is needed",
      "options.pools.1.name": "is there twice",
    });
    expect(read(schemaOf("kubernetes"), { ...fieldsOf(schemaOf("kubernetes"), KUBERNETES), features: "ib" }).problems).toEqual({
      "options.features": "write each as feature=label",
    });
    const listed = fieldsOf(schemaOf("kubernetes"), KUBERNETES);
    const none = { pick: (listed.allowed_registries as { pick: string }).pick, free: " " };
    expect(read(schemaOf("kubernetes"), { ...listed, allowed_registries: none }).problems).toEqual({
      "options.allowed_registries": "is needed",
    });
  });

  // Planted: the first pool in the place of the one that the pointer names.
  it("show a refusal at the field that its JSON pointer names", () => {
    const schema = schemaOf("kubernetes");
    const fields = fieldsOf(schema, KUBERNETES);
    const place = (pointer: string) => placeOf(schema, fields, pointer.split("/"), "options");
    expect(place("log_root")).toBe("options.log_root");
    expect(place("pull_secrets/0")).toBe("options.pull_secrets");
    expect(place("pools")).toBe("options.pools");
    expect(place("pools/a100/flavor")).toBe("options.pools.1.fields.flavor");
    expect(place("pools/gone/flavor")).toBe("options.pools");
    expect(place("pools/batch/cpu_per_gpu")).toBe("options.pools");
    expect(place("pools/h100/tolerations/1/key")).toBe("options.pools.0.fields.tolerations.1.fields.key");
    expect([place("queue"), place("colour")]).toEqual([null, null]);
  });
});
