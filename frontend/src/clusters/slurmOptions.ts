/** The options of a Slurm cluster as fields of a form, and what the API takes of them. */
import { readFields, type OptionField } from "./options";

export interface PoolFields {
  pool: string;
  partition: string;
  gres_type: string;
  constraint: string;
}

export interface SlurmFields {
  texts: Record<string, string>;
  pools: readonly PoolFields[];
  isFast: boolean;
}

/** In the order in which an administrator meets them. */
export const MAIN_FIELDS: readonly OptionField[] = [
  {
    name: "url",
    label: "Address of slurmrestd",
    help: "As this portal reaches it.",
    placeholder: "http://slurm-head:6820",
    isRequired: true,
  },
  {
    name: "service_user",
    label: "Service user",
    help: "The UNIX user that reads, releases and cancels. A Slurm operator; an administrator if quotas are pushed and nodes drained from here.",
    placeholder: "tidegate",
    isRequired: true,
  },
  {
    name: "token_socket",
    label: "Socket of the minter",
    help: "Where the process that holds the cluster's key hands out short tokens.",
    placeholder: "/run/tidegate/minter.sock",
    isRequired: true,
  },
  {
    name: "tag_secret_file",
    label: "File with the tag secret",
    help: "16 bytes or more, readable by the portal only: jobs of ours are signed with it.",
    placeholder: "/etc/tidegate/slurm-tag-secret",
    isRequired: true,
  },
  {
    name: "output_root",
    label: "Folder for outputs",
    help: "On a file system that nodes and portal share; {user} stands for the user. Empty: outputs stay in the working directory and cannot be shown here.",
    placeholder: "/shared/tidegate/{user}",
  },
  {
    name: "working_directory",
    label: "Working directory",
    help: "Where scripts start; /home/{user} if empty.",
    placeholder: "/home/{user}",
  },
];

export const MORE_FIELDS: readonly OptionField[] = [
  { name: "api_version", label: "API version", help: "Empty: the newest that both sides know.", placeholder: "v0.0.40" },
  {
    name: "cluster_name",
    label: "Name in the accounting",
    help: "Empty if slurmdbd keeps this cluster only.",
  },
  { name: "account_prefix", label: "Prefix of accounts", help: "Before the names of the teams' accounts; empty for none." },
  { name: "qos_prefix", label: "Prefix of QoS", help: "Before the QoS of guaranteed starts; g- if empty.", placeholder: "g-" },
  {
    name: "borrow_qos",
    label: "QoS of borrowed starts",
    help: "The one that guaranteed starts may preempt; tg-borrow if empty.",
    placeholder: "tg-borrow",
  },
  { name: "cpus_per_gpu", label: "Cores per GPU", help: "Empty: the cluster's own default.", isNumber: true },
  { name: "memory_mb_per_gpu", label: "MiB of memory per GPU", help: "Empty: the cluster's own default.", isNumber: true },
  {
    name: "log_cap_bytes",
    label: "Bytes of each output that are shown",
    help: "16777216 (16 MiB) if empty.",
    isNumber: true,
  },
  {
    name: "containers",
    label: "Container images",
    help: "pyxis, if srun has NVIDIA's plugin of that name; empty: jobs with an image run elsewhere.",
    placeholder: "pyxis",
  },
  {
    name: "container_mounts",
    label: "Folders that containers see",
    help: "Beside the working directory and the outputs; spaces between them, {user} stands for the user.",
    placeholder: "/data /scratch/{user}",
    isList: true,
  },
  {
    name: "path",
    label: "PATH of the jobs",
    help: "The Slurm commands must be in it; /usr/local/bin:/usr/bin:/bin if empty.",
  },
];

export const NO_POOL: PoolFields = { pool: "", partition: "", gres_type: "", constraint: "" };

/** The options; or by field what cannot be sent. The server checks the rest. */
export function readOptions(fields: SlurmFields): {
  options: Record<string, unknown>;
  problems: Record<string, string>;
} {
  const { options, problems } = readFields([...MAIN_FIELDS, ...MORE_FIELDS], fields.texts);
  if (fields.isFast) options.settle_s = 0;
  const pools: Record<string, unknown> = {};
  for (const { pool, partition, gres_type, constraint } of fields.pools) {
    if (pool.trim() === "" || partition.trim() === "" || gres_type.trim() === "") {
      problems.pools = "Each pool needs a name, a partition and a GPU type.";
    } else if (pool.trim() in pools) {
      problems.pools = `Pool ${pool.trim()} is there twice.`;
    }
    pools[pool.trim()] = {
      partition: partition.trim(),
      gres_type: gres_type.trim(),
      ...(constraint.trim() === "" ? {} : { constraint: constraint.trim() }),
    };
  }
  if (fields.pools.length === 0) problems.pools = "At least one pool is needed.";
  options.pools = pools;
  return { options, problems };
}
