/** Templates of the mock's company: of two teams. */
import type { JobTemplate } from "../src/api/types";
import { iso } from "./company.ts";

export function theTemplates(): JobTemplate[] {
  return [
    {
      id: "01935000-0000-7000-8000-0000000dd001",
      team: "ai-company/research/vision",
      name: "train-8",
      description: "Training on one node of eight GPUs.",
      request: {
        pool: "h100",
        gpus: 8,
        time_limit: "12h",
        environment: { LR: "0.1" },
        script: "#!/bin/bash\npython train.py\n",
      },
      locked: ["gpus", "pool"],
      version: 3,
      changed_at: iso(Date.now() - 86_400_000),
      can: ["change", "delete"],
    },
    {
      id: "01935000-0000-7000-8000-0000000dd002",
      team: "ai-company/research/nlp",
      name: "evaluate",
      description: "",
      request: { gpus: 1, sbatch: "#!/bin/bash\n#SBATCH --time=1:00:00\nsrun python eval.py\n" },
      locked: [],
      version: 1,
      changed_at: iso(Date.now() - 3_600_000),
      can: [],
    },
  ];
}
