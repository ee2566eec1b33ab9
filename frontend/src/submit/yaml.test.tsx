import { screen, waitFor } from "@testing-library/react";
import { describe, expect, it } from "vitest";

import { accessibilityFaults, open } from "../test/render";
import { emptyDraft, placeRefusals, submitCommand } from "./draft";
import { readYaml, yamlOf } from "./yamlRequest";

const VISION = "ai-company/research/vision";

describe("a request in YAML", () => {
  /** Against: times as dates and 1e3 as a number, so that the server got other values. */
  it("is read as the command reads it, and written back as the same request", () => {
    const text = 'name: train\ngpus: 8\ntime_limit: 2:00:00\nbegin_at: 2026-11-30T08:00:00Z\nscript: |\n  true\n';
    const request = {
      team: VISION,
      name: "train",
      gpus: 8,
      time_limit: "2:00:00",
      begin_at: "2026-11-30T08:00:00Z",
      script: "true\n",
    };
    expect(readYaml(text, VISION)).toEqual({ request });
    const odd = { ...request, environment: { LR: "1e3", ON: "no", SIZE: "0o17" } };
    expect(readYaml(yamlOf(odd), null)).toEqual({ request: odd });
  });

  it("says what is wrong with a text", () => {
    expect(readYaml(" ", VISION).error).toBe("There is no request yet.");
    expect(readYaml("a: [", VISION).error).toMatch(/^This is not YAML: /);
    expect(readYaml("- gpus", VISION).error).toBe(
      "Write the members of a job request, such as gpus: 8, one a line.",
    );
    expect(readYaml("apiVersion: batch/v1", VISION).error).toBe(
      "This is a Kubernetes manifest. Paste it under Script or manifest.",
    );
    expect(readYaml("gpus: 8", null).error).toBe("Choose a team, or write team: in the text.");
  });

  it("has its refusals at the text, with the member's name", () => {
    const draft = { ...emptyDraft(), door: "yaml" as const, team: VISION, yaml: "gpus: 0\n" };
    expect(placeRefusals({ gpus: "must be above 0", pool: "is required" }, draft)).toEqual({
      errors: { yaml: "gpus: must be above 0; pool: is required" },
      others: [],
    });
    expect(submitCommand(draft)).toBe(`tidegate submit --team ${VISION} job.yaml`);
    expect(submitCommand({ ...draft, yaml: `team: ${VISION}\n` })).toBe("tidegate submit job.yaml");
  });

  it("begins with what the form says, and is submitted", async () => {
    const { user, requests, container } = open(`/submit?scope=${VISION}`);
    await user.type(await screen.findByLabelText(/^Name/), "mine");
    await user.click(screen.getByRole("radio", { name: "YAML" }));
    const text = await screen.findByLabelText("Request in YAML");
    expect(text).toHaveValue(`team: ${VISION}\nscript: |\n  #!/bin/bash\ngpus: 1\nname: mine\n`);
    expect(await accessibilityFaults(container)).toEqual([]);
    await user.click(screen.getByRole("button", { name: "Submit" }));
    const sent = () => requests.filter(({ method, query }) => method === "POST" && query.get("dry_run") === null);
    await waitFor(() => expect(sent()).toHaveLength(1));
    expect(sent()[0]?.body).toEqual({ team: VISION, script: "#!/bin/bash\n", gpus: 1, name: "mine" });
  });
});
