import { screen, waitFor, within } from "@testing-library/react";
import { describe, expect, it } from "vitest";

import { aProblem } from "../../mock/http.ts";
import { POOLS, theClusters } from "../../mock/company.ts";
import { aJob, theJobs } from "../../mock/jobs.ts";
import { gpuSpan } from "../jobs/words";
import { accessibilityFaults, open } from "../test/render";
import { draftOf, emptyDraft, parseArray, parseEnvironment, placeRefusals, readDraft, submitCommand } from "./draft";
import { imageAdvice } from "./images";

const VISION = "ai-company/research/vision";

describe("the draft", () => {
  it("becomes the smallest request that says the same", () => {
    const { request, errors } = readDraft({ ...emptyDraft(), team: VISION, gpus: "8", timeLimit: "72h", script: "run" });
    expect(errors).toEqual({});
    expect(request).toEqual({ team: VISION, gpus: 8, time_limit_s: 259_200, script: "run" });
  });

  it("sends a Kubernetes manifest as one, and shows an earlier job's whole", () => {
    const manifest = "apiVersion: batch/v1\nkind: Job\n";
    const draft = { ...emptyDraft(), team: VISION, door: "sbatch", sbatch: manifest, arguments: "left over" } as const;
    expect(readDraft(draft).request).toEqual({ team: VISION, manifest });
    expect(submitCommand(draft)).toMatch(/ job\.yaml$/);
    expect(readDraft({ ...draft, sbatch: '{\n  "apiVersion": "v1"}' }).request).toHaveProperty("manifest");
    expect(readDraft({ ...draft, sbatch: "#!/bin/sh\napiVersion: x\n" }).request).toHaveProperty("sbatch");
    expect(placeRefusals({ manifest: "has a fault" }, draft).errors).toEqual({ sbatch: "has a fault" });
    const again = draftOf({ ...aJob(), launch: "manifest", script: manifest });
    expect([again.door, again.sbatch, again.launch]).toEqual(["sbatch", manifest, "per_node"]);
  });

  /** Planted: the text alone was sent, so that the copy ran in another pool, as another class. */
  it("keeps the pool, class, limit and cluster of a copied manifest", () => {
    const manifest = "apiVersion: batch/v1\nkind: Job\n";
    const job = aJob({ launch: "manifest", script: manifest, time_limit_s: 3600, cluster: "gpu-1" });
    const copied = draftOf({ ...job, pools: ["h100", "a100"], priority_class: "high" });
    expect(readDraft(copied).request).toEqual({
      team: job.team,
      manifest,
      pools: ["h100", "a100"],
      priority_class: "high",
      time_limit_s: 3600,
      cluster: "gpu-1",
    });
    expect(submitCommand(copied)).toBe(
      `tidegate submit --team ${job.team} --pool h100,a100 --time 1h --class high --cluster gpu-1 job.yaml`,
    );
    expect(placeRefusals({ pool: "is required", gpus: "is wrong" }, copied).errors).toEqual({
      pool: "is required",
      sbatch: "is wrong",
    });
  });

  it("counts per node when asked so, and leaves all to the script in an sbatch", () => {
    const draft = { ...emptyDraft(), team: VISION, script: "run" };
    expect(readDraft({ ...draft, shape: "per_node", gpusPerNode: "8", nodes: "25" }).request).toMatchObject({
      gpus_per_node: 8,
      nodes: 25,
    });
    expect(readDraft({ ...draft, door: "sbatch", sbatch: "#SBATCH --gpus=8", gpus: "nonsense" }).request).toEqual({
      team: VISION,
      sbatch: "#SBATCH --gpus=8",
    });
    const dropped = { ...draft, door: "sbatch", sbatch: "srun x", scriptFile: "a b.sh" } as const;
    expect(readDraft(dropped).request).toEqual({ team: VISION, sbatch: "srun x", script_file: "a b.sh" });
    expect(submitCommand(dropped)).toBe(`tidegate submit --team ${VISION} 'a b.sh'`);
    expect(readDraft({ ...dropped, door: "form" }).request).not.toHaveProperty("script_file");
  });

  it("asks for a range of GPUs or nodes, clones it, and says the command", () => {
    const total = { ...emptyDraft(), team: VISION, script: "run", gpus: "4..16" };
    expect(readDraft(total).request).toMatchObject({ gpus_min: 4, gpus: 16 });
    expect(submitCommand(total)).toBe(`tidegate submit --team ${VISION} --gpus 4..16 job.sh`);
    const nodes = { ...total, shape: "per_node" as const, gpusPerNode: "8", nodes: "2..4" };
    expect(readDraft(nodes).request).toMatchObject({ gpus_per_node: 8, nodes_min: 2, nodes: 4 });
    for (const gpus of ["4..", "..4", "1..2..3", "0..4"]) {
      expect(Object.keys(readDraft({ ...total, gpus }).errors)).toEqual(["gpus"]);
    }
    const job = aJob({ node_count: 4, node_count_min: 2, mgpu: 32_000, mgpu_min: 16_000 });
    expect(readDraft(draftOf(job)).request).toMatchObject({ gpus_per_node: 8, nodes_min: 2, nodes: 4 });
    expect(placeRefusals({ gpus_min: "is too much" }, total).errors).toEqual({ gpus: "is too much" });
  });

  it("caps its cost in the currency of the organization, clones that, and says the command", () => {
    const draft = { ...emptyDraft(), team: VISION, script: "run", costCap: "12.50" };
    expect(readDraft(draft).request).toMatchObject({ cost_cap_nano: 12_500_000_000 });
    expect(submitCommand(draft)).toContain(" --cost-cap 12.50 ");
    expect(readDraft({ ...draft, costCap: "much" }).errors).toEqual({ costCap: "A number above 0, such as 50." });
    expect(draftOf(aJob({ cost_cap_nano: 12_500_000_000 })).costCap).toBe("12.5");
    expect(placeRefusals({ cost_cap_nano: "is too much" }, draft).errors).toEqual({ costCap: "is too much" });
  });

  it("begins at a time of this browser's zone", () => {
    const draft = { ...emptyDraft(), team: VISION, script: "run", beginAt: "2027-01-20T08:00" };
    const beginAt = new Date("2027-01-20T08:00").toISOString().replace(".000Z", "Z");
    expect(readDraft(draft).request).toMatchObject({ begin_at: beginAt });
    expect(submitCommand(draft)).toContain(`--begin ${beginAt} `);
    expect(readDraft({ ...draft, beginAt: "soon" }).errors).toEqual({ beginAt: "A day and a time." });
  });

  it("refuses what the server would refuse, before it is sent", () => {
    const { request, errors } = readDraft({
      ...emptyDraft(),
      gpus: "0",
      script: "x".repeat(1024 * 1024 + 1),
      timeLimit: "soon",
      environment: "A=1\nnonsense",
    });
    expect(request).toBeNull();
    expect(Object.keys(errors).sort()).toEqual(["environment", "gpus", "script", "team", "timeLimit"]);
    expect(errors.environment).toBe("Line 2 is not NAME=VALUE.");
  });

  it("reads NAME=VALUE lines as they are", () => {
    expect(parseEnvironment("# note\nA=1 = 2\n\nB=").environment).toEqual({ A: "1 = 2", B: "" });
  });

  it("clones a job into the same request", () => {
    const job = theJobs().find(({ name }) => name === "pretrain-13b");
    if (!job) throw new Error("the story has pretrain-13b");
    expect(readDraft(draftOf(job)).request).toMatchObject({
      team: "ai-company/research/nlp",
      gpus_per_node: 8,
      nodes: 25,
      priority_class: "high",
      time_limit_s: 259_200,
    });
  });

  it("asks for features and an image only where they are named, and clones them", () => {
    const draft = { ...emptyDraft(), team: VISION, script: "run", features: ["ib", "nvlink"], image: " x:1 " };
    const { request } = readDraft(draft);
    expect(request).toMatchObject({ features: ["ib", "nvlink"], image: "x:1" });
    expect(readDraft({ ...draft, features: [], image: "" }).request).not.toHaveProperty("features");
    expect(submitCommand(draft)).toBe(
      `tidegate submit --team ${VISION} --gpus 1 --feature ib --feature nvlink --image x:1 job.sh`,
    );
    const job = theJobs().find(({ image }) => image !== null);
    if (!job) throw new Error("a job of the story has an image");
    expect(readDraft(draftOf(job)).request).toMatchObject({ features: job.features, image: job.image });
    const refusal = { "features/1": "must be the name of a feature" };
    expect(placeRefusals(refusal, draft)).toEqual({ errors: { features: refusal["features/1"] }, others: [] });
  });

  it("names several pools in their order, and one as the only one", () => {
    const draft = { ...emptyDraft(), team: VISION, script: "run", pool: "h100", otherPools: ["v100", "h100", "a100"] };
    expect(readDraft(draft).request).toMatchObject({ pools: ["h100", "v100", "a100"] });
    expect(readDraft({ ...draft, otherPools: [] }).request).toMatchObject({ pool: "h100" });
    expect(readDraft({ ...draft, otherPools: [] }).request).not.toHaveProperty("pools");
    expect(submitCommand(draft)).toBe(`tidegate submit --team ${VISION} --pool h100,v100,a100 --gpus 1 job.sh`);
    const cloned = draftOf({ ...aJob(), pool: "a100", pools: ["h100", "a100"] });
    expect([cloned.pool, cloned.otherPools]).toEqual(["h100", ["a100"]]);
    const refusals = { "pools/1": "there is no pool 'x' for you" };
    expect(placeRefusals(refusals, draft)).toEqual({ errors: { otherPools: refusals["pools/1"] }, others: [] });
  });

  it("asks a pool of CPU cores for nodes and cores on each, and clones that", () => {
    const asked = { pool: "cpu", shape: "cores", cpus: "16", nodes: "1..2" } as const;
    const draft = { ...emptyDraft(), ...asked, team: VISION, script: "run" };
    const { request } = readDraft(draft);
    expect(request).toMatchObject({ pool: "cpu", cpus_per_node: 16, nodes: 2, nodes_min: 1 });
    expect(request).not.toHaveProperty("gpus");
    expect(request).not.toHaveProperty("gpus_per_node");
    expect(readDraft({ ...draft, cpus: "" }).errors).toEqual({ cpus: "A whole number, at least 1." });
    expect(submitCommand(draft)).toBe(`tidegate submit --team ${VISION} --pool cpu --nodes 1..2 --cpus-per-node 16 job.sh`);
    const size = { mgpu_per_node: 16_000, mgpu: 32_000, mgpu_min: 16_000, node_count: 2, node_count_min: 1 };
    const job = aJob({ ...size, device: "cpu", pool: "cpu", cpus_per_node: 16 });
    expect(readDraft(draftOf(job)).request).toMatchObject({ pool: "cpu", cpus_per_node: 16, nodes: 2, nodes_min: 1 });
    expect(gpuSpan(job)).toBe("16 to 32 cores");
    const refused = placeRefusals({ gpus: "it has GPUs" }, draft);
    expect(refused).toEqual({ errors: { cpus: "it has GPUs" }, others: [] });
  });

  it("asks for CPUs and memory only where they are given, and clones them", () => {
    const draft = { ...emptyDraft(), team: VISION, script: "run", cpus: "16", memory: "64g" };
    expect(readDraft(draft).request).toMatchObject({ cpus_per_node: 16, memory_mib_per_node: 65_536 });
    expect(readDraft({ ...draft, memory: "1500" }).request).toMatchObject({ memory_mib_per_node: 1500 });
    expect(readDraft({ ...draft, cpus: "", memory: "" }).request).not.toHaveProperty("cpus_per_node");
    expect(readDraft({ ...draft, cpus: "1.5", memory: "much" }).errors).toMatchObject({
      cpus: "A whole number, at least 1.",
      memory: "Such as 512M, 64G or 1T.",
    });
    expect(submitCommand(draft)).toBe(
      `tidegate submit --team ${VISION} --gpus 1 --cpus-per-node 16 --memory-per-node 64g job.sh`,
    );
    const job = aJob({ cpus_per_node: 8, memory_mib_per_node: 1500 });
    expect(draftOf(job)).toMatchObject({ cpus: "8", memory: "1500M" });
    const refusal = { cpus_per_node: "no node has so many" };
    expect(placeRefusals(refusal, draft)).toEqual({ errors: { cpus: "no node has so many" }, others: [] });
  });

  it("says of a batch job what it starts, clones that, and says the command", () => {
    const plain = { ...emptyDraft(), team: VISION, script: "run", gpus: "16" };
    expect(readDraft({ ...plain, tasks: "16" }).request).toEqual({ team: VISION, script: "run", gpus: 16 });
    const batch = { ...plain, launch: "batch" as const, tasks: "16", tasksPerNode: "8", cpusPerTask: "4", gpusPerTask: "1" };
    const asked = { launch: "batch", ntasks: 16, ntasks_per_node: 8, cpus_per_task: 4, gpus_per_task: 1 } as const;
    expect(readDraft(batch).request).toEqual({ team: VISION, script: "run", gpus: 16, ...asked });
    expect(submitCommand(batch)).toContain(
      " --launch batch --ntasks 16 --ntasks-per-node 8 --cpus-per-task 4 --gpus-per-task 1 ",
    );
    expect(readDraft({ ...batch, tasks: "many" }).errors).toEqual({ tasks: "A whole number, at least 1." });
    expect(readDraft(draftOf(aJob(asked))).request).toMatchObject(asked);
    expect(readDraft(draftOf(aJob())).request).not.toHaveProperty("launch");
  });

  it("keeps the folder and the output files of a copied job", () => {
    const files = { folder: "/scratch/ana", output_file: "logs/%x-%j.out", error_file: "e", appends_output: true, is_singleton: true };
    const copied = { ...draftOf(aJob(files)), team: VISION };
    expect(readDraft(copied).request).toMatchObject(files);
    expect(submitCommand(copied)).toContain(
      " --chdir /scratch/ana --output-file logs/%x-%j.out --error-file e --append-output ",
    );
    expect(submitCommand(copied)).toContain(" --singleton ");
    expect(placeRefusals({ output_file: "is long" }, copied).errors).toEqual({ outputFile: "is long" });
  });

  it("gives the script its arguments, in a file with directives too", () => {
    const draft = { ...emptyDraft(), team: VISION, script: "run", sbatch: "run", arguments: "--lr\n0.1\n\ntwo words\n" };
    expect(readDraft(draft).request?.arguments).toEqual(["--lr", "0.1", "two words"]);
    expect(readDraft({ ...draft, door: "sbatch" }).request).toEqual({
      team: VISION,
      sbatch: "run",
      arguments: ["--lr", "0.1", "two words"],
    });
    expect(submitCommand(draft)).toContain(" job.sh -- --lr 0.1 'two words'");
    const copied = draftOf(aJob({ arguments: ["--name", "", "two\nlines"], requeue_on: ["time_limit"], requeue_max: 3 }));
    expect(readDraft(copied).request).toMatchObject({
      arguments: ["--name", "", "two\nlines"],
      requeue_on: ["time_limit"],
      requeue_max: 3,
    });
    expect(readDraft({ ...copied, arguments: "-x\n" }).request?.arguments).toEqual(["-x"]);
    expect(placeRefusals({ arguments: "has too many" }, { ...draft, door: "sbatch" }).errors).toEqual({
      arguments: "has too many",
    });
  });

  it("asks for nodes close together only where a level is named, and clones that", () => {
    const draft = { ...emptyDraft(), team: VISION, script: "run", together: "rack" as const };
    expect(readDraft(draft).request).toMatchObject({ preferred_topology: "rack" });
    const must = { ...draft, mustBeTogether: true };
    expect(readDraft(must).request).toMatchObject({ required_topology: "rack" });
    expect(readDraft(must).request).not.toHaveProperty("preferred_topology");
    expect(readDraft({ ...must, together: null }).request).not.toHaveProperty("required_topology");
    expect(submitCommand(must)).toBe(`tidegate submit --team ${VISION} --gpus 1 --required-topology rack job.sh`);
    expect(submitCommand(draft)).toContain("--preferred-topology rack");
    const [job] = theJobs();
    if (!job) throw new Error("the story has jobs");
    expect(draftOf({ ...job, required_topology: "block" })).toMatchObject({ together: "block", mustBeTogether: true });
    expect(draftOf({ ...job, preferred_topology: "node" })).toMatchObject({ together: "node", mustBeTogether: false });
    const refusal = { required_topology: "none has more than 2" };
    expect(placeRefusals(refusal, must)).toEqual({ errors: { together: "none has more than 2" }, others: [] });
  });

  it("quotes the command that does the same", () => {
    expect(submitCommand({ ...emptyDraft(), team: VISION, name: "it's 1", gpus: "8" })).toBe(
      `tidegate submit --team ${VISION} --name 'it'\\''s 1' --gpus 8 job.sh`,
    );
  });

  it("leaves nothing that was asked for out of the command", () => {
    const draft = { ...emptyDraft(), team: VISION, environment: "A=1 2", isRequeueable: false, isHeld: true };
    expect(submitCommand({ ...draft, signalAhead: "5m" })).toContain(" --signal TERM@300 ");
    expect(submitCommand({ ...draft, noticeSignal: "USR1", signalsShellOnly: true })).toContain(" --signal B:USR1 ");
    expect(submitCommand({ ...draft, noticeSignal: "USR1" })).toBe(
      `tidegate submit --team ${VISION} --gpus 1 --env 'A=1 2' --signal USR1 --no-requeue --hold job.sh`,
    );
  });

  it("says after which ends a job is queued again, and how often", () => {
    const draft = { ...emptyDraft(), team: VISION, script: "run", requeueOn: "time_limit, 75", requeueMax: "3" };
    expect(readDraft(draft).request).toMatchObject({ requeue_on: ["time_limit", "75"], requeue_max: 3 });
    expect(submitCommand(draft)).toContain(" --requeue-on time_limit --requeue-on 75 --requeue-max 3 ");
    expect(readDraft({ ...draft, requeueMax: " " }).request).not.toHaveProperty("requeue_max");
    expect(readDraft({ ...draft, requeueMax: "often" }).errors).toEqual({ requeueMax: "A whole number, at least 1." });
    // Without such an end the number means nothing, as the disabled field shows.
    const none = { ...draft, requeueOn: "" };
    expect(readDraft(none).request).not.toHaveProperty("requeue_max");
    expect(submitCommand(none)).not.toContain("--requeue");
    const refusal = { requeue_max: "must be at most 1000" };
    expect(placeRefusals(refusal, draft)).toEqual({ errors: { requeueMax: "must be at most 1000" }, others: [] });
  });

  it("shows the restarts of a copied job in its form", async () => {
    const copied = aJob({ requeue_on: ["time_limit"], requeue_max: 3 });
    const { user } = open(`/submit?from=${copied.id}`, {
      override: ({ path }) => (path === `/api/v1/jobs/${copied.id}` ? { status: 200, body: copied } : undefined),
    });
    const most = await screen.findByRole("textbox", { name: "Requeue at most" });
    expect(most).toHaveValue("3");
    await user.clear(screen.getByRole("textbox", { name: "Requeue also after" }));
    expect(most).toBeDisabled();
  });

  it("reads jobs to wait for, one a line, and says the same in the command", () => {
    const [one, two] = ["0193508e-2f4c-7000-8000-000000000001", "0193508e-2f4c-7000-8000-000000000002"];
    const draft = { ...emptyDraft(), team: VISION, dependsOn: `${one}\n\n failed ${two} ` };
    expect(readDraft(draft).request?.depends_on).toEqual([
      { job: one, condition: "succeeded" },
      { job: two, condition: "failed" },
    ]);
    expect(submitCommand(draft)).toBe(
      `tidegate submit --team ${VISION} --gpus 1 --after-ok ${one} --after-not-ok ${two} job.sh`,
    );
    expect(readDraft({ ...draft, dependsOn: `${one}\nstarted ${two}` }).errors.dependsOn).toBe(
      "Line 2 is neither a job's id nor succeeded, ended or failed and an id.",
    );
    expect(placeRefusals({ depends_on: "There is no such job." }, draft).errors).toEqual({
      dependsOn: "There is no such job.",
    });
  });

  it("counts the tasks of an array as the server does", () => {
    expect(parseArray("0-9%3")).toEqual({ size: 10, atOnce: 3 });
    expect(parseArray("1,3,5-7,3")).toEqual({ size: 5, atOnce: null });
    expect(parseArray("0-31:4")).toEqual({ size: 8, atOnce: null });
    expect(parseArray("0-999")).toEqual({ size: 1000, atOnce: null });
    for (const text of ["x", "3-1", "0-1000", "1000001", "0-9%0", "0-9%", "0-9%1%2", "0-999999999", "0-3:0"]) {
      expect(parseArray(text), text).toHaveProperty("error");
    }
    const draft = { ...emptyDraft(), team: VISION, script: "run", array: " 0-9%3 " };
    expect(readDraft(draft).request?.array).toBe("0-9%3");
    expect(submitCommand(draft)).toBe(`tidegate submit --team ${VISION} --gpus 1 --array 0-9%3 job.sh`);
    expect(readDraft({ ...draft, array: "9-0" }).errors.array).toBe("Indices such as 0-9, 1,3,5-7 or 0-31:4.");
  });

  it("clones a task with its index, and waits for arrays too", () => {
    const id = "0193508e-2f4c-7000-8000-000000000001";
    const task = aJob({
      name: "sweep[7]",
      type: "array",
      array: { id, index: 7, size: 10 },
      depends_on: [{ job: null, array: id, name: "prepare", state: null, condition: "ended", is_met: true }],
    });
    const { request } = readDraft(draftOf(task));
    expect(request).toMatchObject({ name: "sweep", array: "7", depends_on: [{ array: id, condition: "ended" }] });
    expect(request).not.toHaveProperty("type");
  });

  it("puts refusals at their fields, and keeps what has none", () => {
    const refusals = { gpus: "Too many.", notes: "Line 3 is refused." };
    expect(placeRefusals(refusals, { ...emptyDraft(), shape: "per_node" })).toEqual({
      errors: { gpusPerNode: "Too many." },
      others: ["Line 3 is refused."],
    });
    expect(placeRefusals({ gpus: "Too many." }, { ...emptyDraft(), door: "sbatch" }).errors).toEqual({
      sbatch: "Too many.",
    });
  });
});

describe("the image of a job", () => {
  const [local, , kube] = theClusters();
  if (!local || !kube) throw new Error("there are local and kube-b");
  const lacking = { ...kube, name: "kube-c", default_images: [{ pool: "h100", image: null }] };

  it("is the pool's own where there is one, and needed where there is none", () => {
    expect(imageAdvice([local], "h100", null)).toMatchObject({ isNeeded: false, placeholder: "none" });
    expect(imageAdvice([local, kube], "h100", null)).toEqual({
      isNeeded: false,
      placeholder: "none",
      description:
        "Such as nvcr.io#nvidia/pytorch:24.05-py3. Without one: on kube-b it is nvcr.io/nvidia/pytorch:24.05-py3.",
    });
    expect(imageAdvice([local, kube], "h100", "kube-b").placeholder).toBe("nvcr.io/nvidia/pytorch:24.05-py3");
    expect(imageAdvice([local, lacking], "h100", "kube-c")).toEqual({
      isNeeded: true,
      placeholder: "",
      description: "Such as nvcr.io#nvidia/pytorch:24.05-py3. kube-c runs every job in an image, so name one.",
    });
    expect(imageAdvice([kube, lacking], "h100", null)).toMatchObject({ isNeeded: false, placeholder: "none" });
    expect(imageAdvice([lacking, { ...lacking, name: "kube-d" }], "h100", null)).toMatchObject({ isNeeded: true });
    expect(imageAdvice([lacking], "a100", null).isNeeded).toBe(false);
  });
});

describe("the submit page", () => {
  it("asks for an image at once where no cluster has one of its own", async () => {
    const items = theClusters()
      .slice(2)
      .map((cluster) => ({ ...cluster, default_images: [{ pool: "h100", image: null }] }));
    open(`/submit?scope=${VISION}`, {
      override: ({ path }) => (path === "/api/v1/clusters" ? { status: 200, body: { items, next: null } } : undefined),
    });
    expect(await screen.findByRole("textbox", { name: "Container image" })).toBeRequired();
  });

  it("plans while one types, then submits once under one key", async () => {
    const { user, requests, router } = open(`/submit?scope=${VISION}`);
    const plan = await screen.findByRole("region", { name: "What would happen" });
    await waitFor(() => expect(plan).toHaveTextContent("It would start now on slurm-a."));
    expect(plan).toHaveTextContent("€2.00");

    const gpus = screen.getByRole("textbox", { name: "GPUs in total" });
    await user.clear(gpus);
    await user.type(gpus, "200");
    await waitFor(() => expect(plan).toHaveTextContent("It would wait."));
    expect(screen.getByRole("region", { name: "Why would it wait?" })).toBeInTheDocument();

    await user.click(screen.getByRole("button", { name: "Submit" }));
    await waitFor(() => expect(router.state.location.pathname).toMatch(/^\/jobs\//));
    const posts = requests.filter(({ method, query }) => method === "POST" && query.get("dry_run") === null);
    expect(posts).toHaveLength(1);
    expect(posts[0]?.headers["idempotency-key"]).toMatch(/^[0-9a-f-]{32,36}$/);
    expect(posts[0]?.body).toMatchObject({ team: VISION, gpus: 200 });
  });

  it("asks again for a plan that others kept it from", async () => {
    let busy = 1;
    const { requests } = open(`/submit?scope=${VISION}`, {
      override: ({ method, query }) =>
        method === "POST" && query.get("dry_run") === "true" && busy-- > 0
          ? aProblem(429, "too_many_requests", "Two other previews are being computed; ask again in 2 seconds.")
          : undefined,
    });
    const plan = await screen.findByRole("region", { name: "What would happen" });
    await waitFor(() => expect(plan).toHaveTextContent("It would start now on slurm-a."), { timeout: 10_000 });
    expect(requests.filter(({ query }) => query.get("dry_run") === "true")).toHaveLength(2);
  });

  it("sends the same key again after a lost answer, and a new one for a changed request", async () => {
    let isLost = true;
    const { user, requests } = open(`/submit?scope=${VISION}`, {
      override: ({ method, query }) =>
        method === "POST" && query.get("dry_run") === null && isLost
          ? aProblem(502, "bad_gateway", "No answer from the portal.")
          : undefined,
    });
    await screen.findByRole("textbox", { name: "GPUs in total" });
    const submit = screen.getByRole("button", { name: "Submit" });
    await user.click(submit);
    expect(await screen.findByText("No answer from the portal.")).toBeInTheDocument();
    await user.click(submit);
    const keys = () =>
      requests
        .filter(({ method, query }) => method === "POST" && query.get("dry_run") === null)
        .map(({ headers }) => headers["idempotency-key"]);
    await waitFor(() => expect(keys()).toHaveLength(2));
    expect(keys()[0]).toBe(keys()[1]);
    isLost = false;
    await user.type(screen.getByRole("textbox", { name: "Name" }), "other");
    await user.click(submit);
    await waitFor(() => expect(keys()).toHaveLength(3));
    expect(keys()[2]).not.toBe(keys()[0]);
  });

  it("suggests the features that nodes of the pool have", async () => {
    const { user, requests } = open(`/submit?scope=${VISION}`);
    await user.click(await screen.findByRole("button", { name: "▸ More options" }));
    await user.click(screen.getByRole("combobox", { name: "Pool" }));
    await user.click(await screen.findByRole("option", { name: /^h100/ }));
    const features = screen.getByRole("combobox", { name: "Features of nodes" });
    await user.click(features);
    await user.click(await screen.findByRole("option", { name: "nvlink" }));
    await user.type(features, "own{Enter}");
    await user.type(screen.getByRole("textbox", { name: "Container image" }), "x:1");
    await user.click(screen.getByRole("button", { name: "Submit" }));
    const sent = () => requests.filter(({ method, query }) => method === "POST" && query.get("dry_run") === null);
    await waitFor(() => expect(sent()).toHaveLength(1));
    expect(sent()[0]?.body).toMatchObject({ features: ["nvlink", "own"], image: "x:1", pool: "h100" });
  });

  it("takes further pools in the order of their choice", async () => {
    const { user, requests } = open(`/submit?scope=${VISION}`, {
      override: ({ path }) =>
        path === "/api/v1/pools"
          ? { status: 200, body: { items: [...POOLS, ...POOLS.map((pool) => ({ ...pool, name: "a100" }))], next: null } }
          : undefined,
    });
    await user.click(await screen.findByRole("button", { name: "▸ More options" }));
    const others = screen.getByRole("combobox", { name: "Other pools" });
    await user.click(others);
    await user.click(await screen.findByRole("option", { name: "a100" }));
    await user.click(screen.getByRole("button", { name: "Submit" }));
    expect(await screen.findByText("Choose the pool that it would like best, too.")).toBeVisible();
    await user.click(screen.getByRole("combobox", { name: "Pool" }));
    await user.click(await screen.findByRole("option", { name: /^h100/ }));
    await user.click(screen.getByRole("button", { name: "Submit" }));
    const sent = () => requests.filter(({ method, query }) => method === "POST" && query.get("dry_run") === null);
    await waitFor(() => expect(sent()).toHaveLength(1));
    expect(sent()[0]?.body).toMatchObject({ pools: ["h100", "a100"] });
    expect(sent()[0]?.body).not.toHaveProperty("pool");
  });

  it("plans an array as what each of its tasks gets", async () => {
    const { user } = open(`/submit?scope=${VISION}`);
    const gpus = await screen.findByRole("textbox", { name: "GPUs in total" });
    await user.clear(gpus);
    await user.type(gpus, "8");
    await user.click(screen.getByRole("button", { name: "▸ More options" }));
    await user.type(screen.getByRole("textbox", { name: /array/i }), "0-9%3");
    const plan = await screen.findByRole("region", { name: "What would happen" });
    const fact = (name: string) => within(plan).findByRole("row", { name: new RegExp(`^${name} `) });
    // What is typed is planned after a pause, and on a busy machine a part of it before.
    await waitFor(async () =>
      expect(await fact("Tasks")).toHaveTextContent("Tasks10, each for itself; at most 3 at once"),
    );
    expect(await fact("Asks for")).toHaveTextContent("8 GPUs of h100 for each task");
    expect(await fact("Cost per hour")).toHaveTextContent(/EUR.* for each task$|for each task$/);
    expect((await within(plan).findAllByRole("row", { name: /^Budget / }))[0]).toHaveTextContent(
      "Training: 11,500.0 of 50,000.0 GPU-hours left after all its tasks, at the end of the period",
    );
    expect(plan).toHaveTextContent("Its first task would start now on slurm-a.");
  });

  it("says of a range that waits what it costs at least, and of one that starts what it costs", async () => {
    const { user } = open(`/submit?scope=${VISION}`);
    const gpus = await screen.findByRole("textbox", { name: "GPUs in total" });
    const plan = await screen.findByRole("region", { name: "What would happen" });
    const cost = () => within(plan).findByRole("row", { name: /^Cost per hour / });
    await user.clear(gpus);
    await user.type(gpus, "100..200");
    await waitFor(async () => expect(await cost()).toHaveTextContent(/^Cost per hourat least .*200\.00/));
    await user.clear(gpus);
    await user.type(gpus, "10..20");
    await waitFor(async () => expect(await cost()).toHaveTextContent(/^Cost per hour[^a]*40\.00/));
  });

  it("puts what the API says about a field at that field", async () => {
    const { user } = open(`/submit?scope=${VISION}`);
    const gpus = await screen.findByRole("textbox", { name: "GPUs in total" });
    await user.clear(gpus);
    await user.type(gpus, "2000");
    expect(await screen.findByText("Pool h100 has 1,000 GPUs; ask for fewer.")).toBeInTheDocument();
    expect(gpus).toBeInvalid();
  });

  it("says in the plan how a total of GPUs is shared out over nodes", async () => {
    const { user } = open(`/submit?scope=${VISION}`);
    const gpus = await screen.findByRole("textbox", { name: "GPUs in total" });
    await user.clear(gpus);
    await user.type(gpus, "16");
    const plan = await screen.findByRole("region", { name: "What would happen" });
    expect(
      await within(plan).findByText("No node has 16 GPUs, so this job takes 2 nodes with 8 GPUs each."),
    ).toBeInTheDocument();
  });

  it("says line by line what of an sbatch script was understood", async () => {
    const { user, container } = open(`/submit?door=sbatch&scope=${VISION}`);
    const script = await screen.findByRole("textbox", { name: "sbatch script or manifest" });
    await user.click(script);
    await user.paste("#!/bin/bash\n#SBATCH --gpus=8\n#SBATCH --mail-user=a@b\n#SBATCH --reservation=x\nsrun x\n");
    const notes = await screen.findByRole("table", { name: "What was read from the script" });
    const verdicts = within(notes)
      .getAllByRole("row")
      .slice(1)
      .map((row) => within(row).getAllByRole("cell").map((cell) => cell.textContent));
    expect(verdicts).toEqual([
      ["2", "#SBATCH --gpus=8", "✓ understood"],
      ["3", "#SBATCH --mail-user=a@b", "○ ignoredTidegate keeps the output itself."],
      ["4", "#SBATCH --reservation=x", "✕ refusedThis option is not supported; remove the line."],
    ]);
    expect(await accessibilityFaults(container)).toEqual([]);
  });

  it("reads a script from a file, again after it was edited, and none that is too large", async () => {
    const { user, container } = open("/submit?door=sbatch");
    const script = await screen.findByRole("textbox", { name: "sbatch script or manifest" });
    const input = container.querySelector<HTMLInputElement>('input[type="file"]');
    if (input === null) throw new Error("the button has an input of its own");
    expect(screen.getByRole("button", { name: "Choose a file" })).toBeInTheDocument();
    expect(input).not.toBeVisible();
    const choose = (text: string) => user.upload(input, new File([text], "job.sh", { type: "text/x-sh" }));
    await choose("#!/bin/sh\ntrue\n");
    await waitFor(() => expect(script).toHaveValue("#!/bin/sh\ntrue\n"));
    expect(input.value).toBe("");
    await choose("#!/bin/sh\nfalse\n");
    await waitFor(() => expect(script).toHaveValue("#!/bin/sh\nfalse\n"));
    await choose("#".repeat(1024 * 1024 + 1));
    expect(await screen.findByText("job.sh is larger than 1 MiB: that is no script.")).toBeInTheDocument();
    expect(script).toHaveValue("#!/bin/sh\nfalse\n");
  });

  it("complains about a missing team only when one submits", async () => {
    const { user } = open("/submit");
    await screen.findByRole("textbox", { name: "GPUs in total" });
    expect(screen.queryByText(/Choose the team/)).toBeNull();
    await user.click(screen.getByRole("button", { name: "Submit" }));
    expect(screen.getByText("Choose the team that the job runs for.")).toBeInTheDocument();
  });
});

describe("a CronJob", () => {
  // Against: sent to jobs, which refuse it.
  it("is a schedule: its plan has the next runs, and it leads to the schedules", async () => {
    const { user, requests } = open("/submit?door=sbatch&scope=ai-company/research/nlp");
    const field = await screen.findByRole("textbox", { name: /script or manifest/i });
    await user.click(field);
    await user.paste("apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: nightly-eval}\n");
    expect(await screen.findByText("Next runs", {}, { timeout: 5_000 })).toBeInTheDocument();
    await user.click(screen.getByRole("button", { name: "Submit" }));
    expect(await screen.findByRole("heading", { name: "Schedules" })).toBeInTheDocument();
    const posts = requests.filter(({ method }) => method === "POST");
    expect(new Set(posts.map(({ path }) => path))).toEqual(new Set(["/api/v1/schedules"]));
    expect(posts.at(-1)?.body).toMatchObject({ request: { team: "ai-company/research/nlp" } });
  });
});
