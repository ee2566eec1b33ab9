import { Button, SegmentedControl, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useState } from "react";

import { clusterNodesQuery, placementsQuery } from "../api/queries";
import type { Cluster, ClusterNode, NodeRequest } from "../api/types";
import { DataTable } from "../ui/DataTable";
import { Empty, Lines, QueryView } from "../ui/states";
import { Time } from "../ui/Time";
import { countUnder, DEVICE_HEADS, formatCount, formatGpus, headOf } from "../ui/units";
import { NODE_CHOICES } from "./search";
import { NodeDialog, type NodeQuestion } from "./NodeDialog";
import { isOut, jobsByNode, matching, placeOf, type JobOnNode } from "./nodes";

const STEP = 50;
const JOBS_SHOWN = 2;

/** The nodes of a cluster: what it says of each, what runs there, and taking one out. */
export function Nodes({ cluster, mayManage }: { cluster: Cluster; mayManage: boolean }) {
  const nodes = useQuery(clusterNodesQuery(cluster.name));
  const placements = useQuery(placementsQuery(cluster.id));
  const { q = "", show } = useSearch({ from: "/shell/clusters/$name" });
  const navigate = useNavigate({ from: "/clusters/$name" });
  const [count, setCount] = useState(STEP);
  const [question, setQuestion] = useState<NodeQuestion | null>(null);
  const jobs = jobsByNode(placements.data ?? []);
  return (
    <QueryView query={nodes} loading={<Lines count={8} label="Loading nodes" />}>
      {(all) => {
        if (all.length === 0) return <Empty>This cluster has not reported a node yet.</Empty>;
        const out = all.filter((node) => !node.is_schedulable);
        const busy = all.filter((node) => jobs.has(node.name));
        const head = headOf(all);
        const found = matching(show === "out" ? out : show === "busy" ? busy : all, q);
        return (
          <>
            <div className="filters">
              <TextInput
                label="Find"
                placeholder="name, state, reason, feature"
                value={q}
                onChange={(event) => {
                  const text = event.currentTarget.value;
                  void navigate({ search: (before) => ({ ...before, q: text || undefined }), replace: true });
                }}
              />
              <SegmentedControl
                className="fit"
                aria-label="Which nodes"
                value={show ?? "all"}
                onChange={(value) =>
                  void navigate({
                    search: (before) => ({ ...before, show: NODE_CHOICES.find((each) => each === value) }),
                    replace: true,
                  })
                }
                data={[
                  { value: "all", label: `All ${formatCount(all.length)}` },
                  { value: "out", label: `Out ${formatCount(out.length)}` },
                  { value: "busy", label: `With jobs ${formatCount(busy.length)}` },
                ]}
              />
            </div>
            {mayManage && cluster.nodes_refusal && (
              <p className="dim">
                Nodes cannot be drained from here: {cluster.nodes_refusal}. Their states show here all the same.
              </p>
            )}
            {placements.error && <p className="bad-text">What runs on them is not known: {placements.error.message}</p>}
            {found.length === 0 ? (
              <Empty>No node matches.</Empty>
            ) : (
              <div className="scroll-x">
                <DataTable
                  className="nodes"
                  label={`Nodes of ${cluster.name}`}
                  rows={found}
                  rowKey={(node) => node.id}
                  limit={count}
                  columns={[
                    { header: "Node", isHeading: true, sortBy: (node) => node.name, cell: (node) => <NodeName node={node} /> },
                    { header: "State", sortBy: stateOf, cell: (node) => <NodeState node={node} /> },
                    { header: "Pool", only: "wide", sortBy: (node) => node.pool, cell: (node) => node.pool },
                    {
                      header: DEVICE_HEADS[head],
                      isRight: true,
                      only: "wide",
                      cell: (node) => countUnder(head, node.capacity_mgpu, node.device),
                    },
                    {
                      header: "Jobs",
                      className: "node-words",
                      sortBy: (node) => jobs.get(node.name)?.length ?? 0,
                      cell: (node) => <JobsOn jobs={jobs.get(node.name) ?? []} />,
                    },
                    { header: "Seen", isRight: true, only: "wide", cell: (node) => <Time at={node.seen_at} /> },
                    mayManage && {
                      header: <span className="visually-hidden">Actions</span>,
                      isRight: true,
                      cell: (node) => (
                        <NodeButton
                          node={node}
                          refusal={
                            cluster.nodes_refusal ||
                            (cluster.is_enabled
                              ? ""
                              : `the cluster is ${cluster.archived_at === null ? "disabled" : "archived"}`)
                          }
                          onAsk={(action) =>
                            setQuestion({
                              node,
                              action,
                              jobs: placements.data === undefined ? null : (jobs.get(node.name)?.length ?? 0),
                              evictionRefusal: cluster.eviction_refusal,
                            })
                          }
                        />
                      ),
                    },
                  ]}
                />
              </div>
            )}
            {found.length > count && (
              <p className="more">
                <Button variant="default" size="xs" onClick={() => setCount(count + 4 * STEP)}>
                  Show more
                </Button>{" "}
                <span className="dim small">
                  {formatCount(count)} of {formatCount(found.length)} are shown
                </span>
              </p>
            )}
            {question && <NodeDialog question={question} onClose={() => setQuestion(null)} />}
          </>
        );
      }}
    </QueryView>
  );
}

function NodeName({ node }: { node: ClusterNode }) {
  return (
    <>
      {node.name}
      {placeOf(node) !== "" && <div className="small faint">{placeOf(node)}</div>}
      {node.features.length > 0 && <div className="small faint node-words">{node.features.join(", ")}</div>}
    </>
  );
}

function stateOf(node: ClusterNode): string {
  return node.state.replaceAll(",", ", ") || (node.is_schedulable ? "schedulable" : "not schedulable");
}

function NodeState({ node }: { node: ClusterNode }) {
  return (
    <>
      <span className={`pill node-state ${node.is_schedulable ? "run" : "bad"}`}>{stateOf(node)}</span>
      {node.reason && <div className="small dim node-words">{node.reason}</div>}
      {node.request && <RequestLine node={node} request={node.request} />}
    </>
  );
}

function JobsOn({ jobs }: { jobs: readonly JobOnNode[] }) {
  const rest = jobs.length - JOBS_SHOWN;
  return (
    <>
      {jobs.slice(0, JOBS_SHOWN).map((job) => (
        <div key={job.id}>
          <Link to="/jobs/$jobId" params={{ jobId: job.id }}>
            {job.name}
          </Link>{" "}
          <span className="faint small">{formatGpus(job.mgpu)}</span>
        </div>
      ))}
      {rest > 0 && <span className="faint small">and {rest} more</span>}
      {jobs.length === 0 && <span className="faint">–</span>}
    </>
  );
}

const WORDS = { drain: "Drain", resume: "Resume" } as const;

/** What was asked of the node and is not yet, or never was, carried out. */
function RequestLine({ node, request }: { node: ClusterNode; request: NodeRequest }) {
  const word = WORDS[request.action];
  if (request.state === "pending") {
    return (
      <div className="small" role="status">
        <span className="pill wait">{word.toLowerCase()} requested</span> <Time at={request.requested_at} /> by{" "}
        {request.requested_by}
        {request.message && <div className="node-words">{request.message}</div>}
      </div>
    );
  }
  const isOld = request.answered_at !== null && Date.parse(node.seen_at) - Date.parse(request.answered_at) > DAY_MS;
  if ((request.state === "refused" || request.state === "given_up") && !isOld) {
    return (
      <div className="small bad-text node-words">
        {word} {request.state === "refused" ? "refused" : "given up"}{" "}
        <Time at={request.answered_at ?? request.requested_at} />: {request.message}
      </div>
    );
  }
  return null;
}

const DAY_MS = 86_400_000;

function NodeButton({
  node,
  refusal,
  onAsk,
}: {
  node: ClusterNode;
  refusal: string;
  onAsk: (action: NodeQuestion["action"]) => void;
}) {
  const action = isOut(node) ? "resume" : "drain";
  if (node.state === "gone") return null;
  return (
    <Button
      variant="default"
      size="xs"
      disabled={refusal !== "" || node.request?.state === "pending"}
      title={refusal || undefined}
      aria-label={`${WORDS[action]} ${node.name}`}
      onClick={() => onAsk(action)}
    >
      {WORDS[action]}
    </Button>
  );
}
