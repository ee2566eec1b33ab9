import { Select } from "@mantine/core";
import { useState } from "react";

import type { Attempt, AttemptCosts, Job } from "../api/types";
import { DataTable } from "../ui/DataTable";
import { useNowMs } from "../ui/now";
import { formatDuration, formatGpuCount, type Device } from "../ui/units";
import { exitCodeWords } from "./AttemptTable";
import { nodesOf, nodesText, ranS, spansOf, unsavedS, waitedS, type AttemptSpan } from "./attemptTimes";
import { costText } from "./attemptCosts";
import { attemptWord } from "./words";

interface Line {
  name: string;
  one: string;
  other: string;
  note?: string;
}

type ComparedJob = Pick<Job, "state" | "attempt" | "ended_at" | "submitted_at" | "device">;

/** Two attempts side by side; lines that differ are marked. */
export function AttemptComparison({
  attempts,
  job,
  costs,
}: {
  attempts: readonly Attempt[];
  job: ComparedJob;
  costs: AttemptCosts | undefined;
}) {
  const spans = spansOf(attempts, job, useNowMs());
  const [numbers, setNumbers] = useState<readonly [number, number] | null>(null);
  const [earlier, later] = numbers ?? [spans.at(-2)?.attempt.number ?? 0, spans.at(-1)?.attempt.number ?? 0];
  const one = spans.find(({ attempt }) => attempt.number === earlier);
  const other = spans.find(({ attempt }) => attempt.number === later);
  if (one === undefined || other === undefined) return null;
  const choices = spans.map(({ attempt }) => ({ value: String(attempt.number), label: `Attempt ${attempt.number}` }));
  return (
    <section className="comparison" aria-label="Compare two attempts">
      <h2>Compare two attempts</h2>
      <div className="filters">
        <Select label="This attempt" data={choices} allowDeselect={false} value={String(earlier)} onChange={(value) => setNumbers([Number(value), later])} />
        <Select label="With" data={choices} allowDeselect={false} value={String(later)} onChange={(value) => setNumbers([earlier, Number(value)])} />
      </div>
      <div className="scroll-x">
        <DataTable
          label="Comparison"
          rows={linesOf(one, other, job, costs)}
          rowKey={({ name }) => name}
          columns={[
            { header: "Property", isHeading: true, cell: ({ name }) => name },
            { header: `Attempt ${earlier}`, cell: (line) => line.one },
            { header: `Attempt ${later}`, cell: (line) => (line.one === line.other ? line.other : <b>{line.other}</b>) },
            { header: "Difference", cell: (line) => line.note ?? (line.one === line.other ? <span className="faint">same</span> : "differs") },
          ]}
        />
      </div>
    </section>
  );
}

function linesOf(one: AttemptSpan, other: AttemptSpan, job: ComparedJob, costs: AttemptCosts | undefined): Line[] {
  const both = (name: string, text: (span: AttemptSpan) => string, note?: string): Line => ({
    name,
    one: text(one),
    other: text(other),
    ...(note === undefined ? {} : { note }),
  });
  return [
    both("Ended", ({ attempt }) => attemptWord(attempt, job)),
    both("Exit code", ({ attempt }) => exitCodeWords(attempt.exit_codes)),
    both("Message", ({ attempt }) => attempt.message || "–"),
    both("Cluster", ({ attempt }) => attempt.cluster),
    both("Nodes", ({ attempt }) => nodesText(nodesOf(attempt)), nodesNote(one.attempt, other.attempt)),
    both("Size", ({ attempt }) => formatGpuCount(attempt.mgpu, job.device)),
    both("Borrowed", ({ attempt }) => sizeText(attempt.borrowed_mgpu, job.device)),
    both("Waited", (span) => formatDuration(waitedS(span))),
    both("Ran", (span) => durationText(ranS(span))),
    both("Work since the last checkpoint", (span) => durationText(unsavedS(span))),
    ...(costs?.currency == null ? [] : [both("Cost", ({ attempt }) => costText(attempt, costs))]),
  ];
}

function sizeText(mgpu: number, device: Device): string {
  return mgpu === 0 ? "none" : formatGpuCount(mgpu, device);
}

function durationText(seconds: number | null): string {
  return seconds === null ? "–" : formatDuration(seconds);
}

/** "same nodes", or how many of the later attempt's nodes are new: a node at fault shows by its absence. */
function nodesNote(one: Attempt, other: Attempt): string {
  const before = new Set(nodesOf(one));
  const after = nodesOf(other);
  const shared = after.filter((node) => before.has(node));
  if (shared.length === after.length && after.length === before.size) return "same nodes";
  return shared.length === 0 ? "no node in common" : `in common: ${nodesText(shared)}`;
}
