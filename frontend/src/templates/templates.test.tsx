import { screen, waitFor, within } from "@testing-library/react";
import { describe, expect, it } from "vitest";

import { theTemplates } from "../../mock/templates.ts";
import { emptyDraft, readDraft } from "../submit/draft";
import { fromTemplate, lockedFields, withMembers } from "../submit/fromRequest";
import { accessibilityFaults, open } from "../test/render";

const VISION = "ai-company/research/vision";
const [TRAIN] = theTemplates();

describe("the page of templates", () => {
  it("lists them with what they lock, and edits what I may", async () => {
    const { user, requests, container } = open("/templates");
    const table = await screen.findByRole("table", { name: "Templates" });
    expect(within(table).getByText("gpus, pool")).toBeInTheDocument();
    expect(within(table).queryByRole("button", { name: "Edit evaluate" })).toBeNull();
    expect(screen.getByText("tidegate templates list")).toBeInTheDocument();
    expect(await accessibilityFaults(container)).toEqual([]);
    await user.click(within(table).getByRole("button", { name: "Edit train-8" }));
    const dialog = await screen.findByRole("dialog", { name: "Edit train-8" });
    await user.clear(within(dialog).getByLabelText("Description"));
    await user.click(within(dialog).getByRole("button", { name: "Save" }));
    await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
    const sent = requests.find(({ method }) => method === "PATCH");
    expect(sent?.headers["if-match"]).toBe('"v3"');
    expect(sent?.body).toEqual({
      name: "train-8",
      description: "",
      request: TRAIN?.request,
      locked: ["gpus", "pool"],
    });
  });

  it("deletes after a question", async () => {
    const { user, requests } = open("/templates");
    await user.click(await screen.findByRole("button", { name: "Delete train-8" }));
    await user.click(await screen.findByRole("button", { name: "Delete it" }));
    await waitFor(() => expect(requests.some(({ method }) => method === "DELETE")).toBe(true));
  });
});

describe("a submission from a template", () => {
  /** Against: locked members sent, which the server refuses where they differ. */
  it("sends the free members only", () => {
    if (TRAIN === undefined) throw new Error("no template");
    const draft = withMembers({ ...emptyDraft(), team: VISION }, TRAIN.request);
    const { request, errors } = readDraft(draft);
    expect(errors).toEqual({});
    expect(request).toMatchObject({ gpus: 8, pool: "h100", time_limit_s: 43_200 });
    expect(fromTemplate(request ?? { team: "" }, TRAIN)).toEqual({
      team: VISION,
      template: TRAIN.id,
      time_limit_s: 43_200,
      environment: { LR: "0.1" },
      script: "#!/bin/bash\npython train.py\n",
    });
    expect([...lockedFields(TRAIN)]).toEqual(["shape", "gpus", "pool", "otherPools"]);
  });

  it("is chosen in the form, whose locked fields are closed", async () => {
    const { user, requests, container } = open(`/submit?scope=${VISION}`);
    await user.click(await screen.findByRole("combobox", { name: /^Template/ }));
    await user.click(await screen.findByRole("option", { name: "train-8" }));
    const gpus = await screen.findByDisplayValue("8");
    expect(gpus).toBeDisabled();
    expect(screen.getByText("Training on one node of eight GPUs. Locked: gpus, pool.")).toBeInTheDocument();
    expect(
      screen.getByText(
        `tidegate submit --team ${VISION} --template train-8 --time 12h --env LR=0.1 job.sh`,
      ),
    ).toBeInTheDocument();
    expect(await accessibilityFaults(container)).toEqual([]);
    await user.click(screen.getByRole("button", { name: "Submit" }));
    const sent = () => requests.filter(({ method, query }) => method === "POST" && query.get("dry_run") === null);
    await waitFor(() => expect(sent()).toHaveLength(1));
    expect(sent()[0]?.body).toMatchObject({ template: TRAIN?.id, time_limit_s: 43_200 });
    expect(sent()[0]?.body).not.toHaveProperty("gpus");
  });
});
