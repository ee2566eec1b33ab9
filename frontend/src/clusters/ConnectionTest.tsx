import { Button } from "@mantine/core";
import type { UseMutationResult } from "@tanstack/react-query";

import type { ConnectionAnswer } from "../api/types";
import { DataTable } from "../ui/DataTable";
import { DEVICE_WORDS, formatGpus } from "../ui/units";

/** Asks the cluster for its nodes once, and shows its answer. Nothing is stored. */
export function ConnectionTest({ test }: { test: UseMutationResult<ConnectionAnswer, Error, void> }) {
  const answer = test.data;
  return (
    <section className="stack" aria-label="Connection" aria-live="polite">
      <div>
        <Button variant="default" loading={test.isPending} onClick={() => test.mutate()}>
          Test the connection
        </Button>
      </div>
      {answer && (
        <>
          <p className={answer.is_answered ? undefined : "bad-text breaks"} role={answer.is_answered ? undefined : "alert"}>
            {answer.is_answered
              ? `The cluster answers${answer.api_version && ` (${answer.api_version})`}.`
              : `The cluster does not answer: ${answer.message}`}
          </p>
          {answer.is_answered && answer.message && <p className="breaks">{answer.message}</p>}
          {answer.pools.length > 0 && (
            <DataTable
              label="Pools that it offers"
              rows={answer.pools}
              rowKey={({ pool }) => pool}
              columns={[
                { header: "Pool", isHeading: true, cell: ({ pool }) => pool },
                {
                  header: "Healthy",
                  cell: ({ healthy_mgpu: healthy, capacity_mgpu: all, device }) =>
                    `${formatGpus(healthy)} of ${formatGpus(all)} ${DEVICE_WORDS[device]}`,
                },
                { header: "Nodes", isRight: true, cell: ({ nodes, nodes_healthy: healthy }) => `${healthy} of ${nodes}` },
              ]}
            />
          )}
        </>
      )}
    </section>
  );
}
