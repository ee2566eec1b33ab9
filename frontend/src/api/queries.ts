/** Every read of the API, as TanStack Query options. The first part of a key is its live topic. */
import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";

import { client, nextCursor, rememberCsrfToken, ApiError, unwrap } from "./client";
import type { ChargebackJob, ChargeClass, Job, JobFilter, JobState, Page, PriorityClass, Session, TreeNode } from "./types";

export const PAGE_LIMIT = 50;
/** Lists that are needed whole are read in pages of this size, and no more than MAX_PAGES of them. */
export const WHOLE_LIMIT = 500;
const MAX_PAGES = 20;
/** What waits for a cluster's answer is looked at this often. */
const SOON_MS = 1500;

export async function readWhole<T>(read: (cursor: string | undefined) => Promise<Page<T>>): Promise<T[]> {
  const items: T[] = [];
  let cursor: string | undefined;
  for (let page = 0; page < MAX_PAGES; page += 1) {
    const answer = await read(cursor);
    items.push(...answer.items);
    const next = nextCursor(answer.next);
    if (next === null) break;
    cursor = next;
  }
  return items;
}

export const paging = {
  initialPageParam: undefined as string | undefined,
  getNextPageParam: (last: { next: string | null }) => nextCursor(last.next) ?? undefined,
};

/** Who is signed in; null when nobody is. */
export const sessionQuery = queryOptions({
  queryKey: ["session"],
  staleTime: 5 * 60_000,
  queryFn: async ({ signal }): Promise<Session | null> => {
    try {
      const session = await unwrap(client.GET("/api/v1/session", { signal }));
      rememberCsrfToken(session.csrf_token);
      return session;
    } catch (error) {
      if (error instanceof ApiError && error.status === 401) return null;
      throw error;
    }
  },
});

/** What strangers may know: whether anybody can let others in. */
export const installationQuery = queryOptions({
  queryKey: ["installation"],
  queryFn: ({ signal }) => unwrap(client.GET("/api/v1/installation", { signal })),
});

/** The identity providers that the sign-in page offers: those of an organization, or those listed for everybody. */
export const signInOptionsQuery = (organization: string | undefined) =>
  queryOptions({
    queryKey: ["sign-in-options", organization],
    queryFn: ({ signal }) =>
      unwrap(client.GET("/api/v1/sign-in-options", { params: { query: { organization } }, signal })),
  });

/** All tree nodes that I may see, parents before children, siblings by path. */
export const treeQuery = queryOptions({
  queryKey: ["tree"],
  staleTime: 60_000,
  queryFn: async ({ signal }): Promise<TreeNode[]> => {
    const lists = await Promise.all([
      readWhole((cursor) =>
        unwrap(client.GET("/api/v1/organizations", { params: { query: { limit: WHOLE_LIMIT, cursor } }, signal })),
      ),
      readWhole((cursor) =>
        unwrap(client.GET("/api/v1/departments", { params: { query: { limit: WHOLE_LIMIT, cursor } }, signal })),
      ),
      readWhole((cursor) =>
        unwrap(client.GET("/api/v1/teams", { params: { query: { limit: WHOLE_LIMIT, cursor } }, signal })),
      ),
    ]);
    return lists.flat().sort((a, b) => comparePaths(a.path, b.path));
  },
});

/** Tree order: by path part, so that "a/b" comes before "a-b". */
export function comparePaths(a: string, b: string): number {
  const left = a.split("/");
  const right = b.split("/");
  for (let i = 0; i < Math.min(left.length, right.length); i += 1) {
    const x = left[i] ?? "";
    const y = right[i] ?? "";
    if (x !== y) return x < y ? -1 : 1;
  }
  return left.length - right.length;
}

export const poolsQuery = queryOptions({
  queryKey: ["clusters", "pools"],
  queryFn: ({ signal }) =>
    readWhole((cursor) =>
      unwrap(client.GET("/api/v1/pools", { params: { query: { limit: WHOLE_LIMIT, cursor } }, signal })),
    ),
});

/** Whether anything is started at all. */
export const quarantineQuery = queryOptions({
  queryKey: ["clusters", "quarantine"],
  queryFn: ({ signal }) => unwrap(client.GET("/api/v1/quarantine", { signal })),
});

export const clustersQuery = queryOptions({
  queryKey: ["clusters", "list"],
  queryFn: ({ signal }) =>
    readWhole((cursor) =>
      unwrap(client.GET("/api/v1/clusters", { params: { query: { limit: WHOLE_LIMIT, cursor } }, signal })),
    ),
});

/** The kinds of cluster that can be added, for those who manage clusters. */
export const clusterKindsQuery = queryOptions({
  queryKey: ["cluster-kinds"],
  queryFn: async ({ signal }) => (await unwrap(client.GET("/api/v1/cluster-kinds", { signal }))).items,
  staleTime: Infinity,
});

/** When the scheduler last decided: on every page, as nothing else tells that it has stopped. */
export const schedulerQuery = queryOptions({
  queryKey: ["scheduler"],
  queryFn: ({ signal }) => unwrap(client.GET("/api/v1/scheduler", { signal })),
  refetchInterval: 10_000,
});

/** Lost work, ended attempts and changes of quotas of the last 24 hours; of `team` and below, or of all that I may see. */
export function todayQuery(team: string | undefined) {
  return queryOptions({
    queryKey: ["jobs", "today", team ?? null],
    queryFn: ({ signal }) => unwrap(client.GET("/api/v1/today", { params: { query: { team } }, signal })),
    staleTime: 60_000,
  });
}

/** All nodes of a cluster. Asked again soon while it has not answered what was asked of one. */
export function clusterNodesQuery(cluster: string) {
  return queryOptions({
    queryKey: ["clusters", "nodes", cluster],
    queryFn: ({ signal }) =>
      readWhole((cursor) =>
        unwrap(
          client.GET("/api/v1/nodes", { params: { query: { cluster, limit: WHOLE_LIMIT, cursor } }, signal }),
        ),
      ),
    refetchInterval: (query) =>
      query.state.data?.some(({ request }) => request?.state === "pending") ? SOON_MS : false,
  });
}

/** What runs on which nodes of a cluster, of the jobs that I may see. */
export function placementsQuery(clusterId: string) {
  return queryOptions({
    queryKey: ["jobs", "placements", clusterId],
    queryFn: ({ signal }) =>
      readWhole((cursor) =>
        unwrap(
          client.GET("/api/v1/clusters/{cluster_id}/placements", {
            params: { path: { cluster_id: clusterId }, query: { limit: WHOLE_LIMIT, cursor } },
            signal,
          }),
        ),
      ),
  });
}

export function clusterUsersQuery(clusterId: string) {
  return queryOptions({
    queryKey: ["clusters", "users", clusterId],
    queryFn: ({ signal }) =>
      readWhole((cursor) =>
        unwrap(
          client.GET("/api/v1/clusters/{cluster_id}/users", {
            params: { path: { cluster_id: clusterId }, query: { limit: WHOLE_LIMIT, cursor } },
            signal,
          }),
        ),
      ),
  });
}

/** The latest comparisons of a cluster's limits with the quotas. */
export function quotaPushesQuery(clusterId: string) {
  return queryOptions({
    queryKey: ["quotas", "pushes", clusterId],
    queryFn: async ({ signal }) =>
      (
        await unwrap(
          client.GET("/api/v1/clusters/{cluster_id}/quota-pushes", {
            params: { path: { cluster_id: clusterId }, query: { limit: 20 } },
            signal,
          }),
        )
      ).items,
    refetchInterval: (query) => (query.state.data?.some(({ done_at }) => done_at === null) ? SOON_MS : false),
  });
}

/** What of a cluster's limits somebody lets stand, the newest first. */
export function acceptedDifferencesQuery(clusterId: string) {
  return queryOptions({
    queryKey: ["clusters", "accepted", clusterId],
    queryFn: ({ signal }) =>
      readWhole((cursor) =>
        unwrap(
          client.GET("/api/v1/clusters/{cluster_id}/accepted-differences", {
            params: { path: { cluster_id: clusterId }, query: { limit: WHOLE_LIMIT, cursor } },
            signal,
          }),
        ),
      ),
  });
}

export function quotaPushQuery(clusterId: string, id: string) {
  return queryOptions({
    queryKey: ["quotas", "push", clusterId, id],
    queryFn: ({ signal }) =>
      unwrap(
        client.GET("/api/v1/clusters/{cluster_id}/quota-pushes/{push_id}", {
          params: { path: { cluster_id: clusterId, push_id: id } },
          signal,
        }),
      ),
    refetchInterval: (query) => (query.state.data?.done_at === null ? SOON_MS : false),
  });
}

export function quotasQuery(filter: { pool?: string; subtree?: string; node?: string }) {
  return queryOptions({
    queryKey: ["quotas", "list", filter],
    queryFn: ({ signal }) =>
      readWhole((cursor) =>
        unwrap(
          client.GET("/api/v1/quotas", {
            params: { query: { ...filter, limit: WHOLE_LIMIT, cursor } },
            signal,
          }),
        ),
      ),
  });
}

/** Jobs that archiving the node has to decide about; read anew each time they are shown. */
export function workToArchiveQuery(id: string) {
  return queryOptions({
    queryKey: ["tree", "archive", id],
    staleTime: 0,
    gcTime: 0,
    queryFn: ({ signal }) =>
      unwrap(client.GET("/api/v1/tree/{tree_node_id}/archive", { params: { path: { tree_node_id: id } }, signal })),
  });
}

/** What moving the node below `parent` changes; read anew each time it is shown. */
export function movePreviewQuery(id: string, parent: string) {
  return queryOptions({
    queryKey: ["tree", "move", id, parent],
    staleTime: 0,
    gcTime: 0,
    queryFn: ({ signal }) =>
      unwrap(
        client.GET("/api/v1/tree/{tree_node_id}/move", {
          params: { path: { tree_node_id: id }, query: { parent } },
          signal,
        }),
      ),
  });
}

export function quotaChangesQuery(id: string) {
  return queryOptions({
    queryKey: ["quotas", "changes", id],
    queryFn: ({ signal }) =>
      unwrap(
        client.GET("/api/v1/quotas/{quota_id}/changes", {
          params: { path: { quota_id: id }, query: { limit: PAGE_LIMIT } },
          signal,
        }),
      ),
  });
}

export function priorityClassesQuery(organization: string) {
  return queryOptions({
    queryKey: ["quotas", "priority-classes", organization],
    staleTime: 5 * 60_000,
    queryFn: ({ signal }) =>
      readWhole<PriorityClass>((cursor) =>
        unwrap(
          client.GET("/api/v1/priority-classes", {
            params: { query: { organization, limit: WHOLE_LIMIT, cursor } },
            signal,
          }),
        ) as Promise<Page<PriorityClass>>,
      ),
  });
}

/** The first `limit` jobs that match; for cards that count and quote a few. */
export function someJobsQuery(filter: JobFilter, limit: number) {
  return queryOptions({
    queryKey: ["jobs", "some", filter, limit],
    queryFn: ({ signal }) =>
      unwrap(client.GET("/api/v1/jobs", { params: { query: { ...filter, limit } }, signal })) as Promise<Page<Job>>,
  });
}

export function jobQuery(id: string) {
  return queryOptions({
    queryKey: ["jobs", "one", id],
    queryFn: ({ signal }) =>
      unwrap(client.GET("/api/v1/jobs/{job_id}", { params: { path: { job_id: id } }, signal })),
  });
}

export function jobArrayQuery(id: string) {
  return queryOptions({
    queryKey: ["jobs", "array", id],
    queryFn: ({ signal }) =>
      unwrap(client.GET("/api/v1/job-arrays/{array_id}", { params: { path: { array_id: id } }, signal })),
  });
}

export function jobAttemptsQuery(id: string) {
  return queryOptions({
    queryKey: ["jobs", "attempts", id],
    queryFn: async ({ signal }) => {
      const params = { path: { job_id: id } };
      return (await unwrap(client.GET("/api/v1/jobs/{job_id}/attempts", { params, signal }))).items;
    },
  });
}

export function attemptCostsQuery(id: string) {
  return queryOptions({
    queryKey: ["jobs", "attempt-costs", id],
    queryFn: ({ signal }) =>
      unwrap(client.GET("/api/v1/jobs/{job_id}/attempt-costs", { params: { path: { job_id: id } }, signal })),
  });
}

const LOG_SUMMARY_MS = 5000;

/**
 * Which streams of a log have output, and the last error lines of a failed attempt. Without an attempt the
 * latest, without a rank the first that failed.
 */
export function logSummaryQuery(id: string, state: JobState, attempt?: number, rank?: number) {
  const isOver = state !== "starting" && state !== "running" && state !== "preempting";
  return queryOptions({
    queryKey: ["log-summary", id, state, attempt, rank],
    staleTime: LOG_SUMMARY_MS,
    refetchInterval: isOver ? false : LOG_SUMMARY_MS,
    retry: false,
    queryFn: ({ signal }) =>
      unwrap(
        client.GET("/api/v1/jobs/{job_id}/log-summary", {
          params: { path: { job_id: id }, query: { attempt, rank } },
          signal,
        }),
      ),
  });
}

export function jobFilesQuery(id: string, attempt: number) {
  return infiniteQueryOptions({
    queryKey: ["jobs", "files", id, attempt],
    retry: false,
    queryFn: ({ pageParam, signal }) =>
      unwrap(
        client.GET("/api/v1/jobs/{job_id}/files", {
          params: { path: { job_id: id }, query: { attempt, limit: WHOLE_LIMIT, cursor: pageParam } },
          signal,
        }),
      ),
    ...paging,
  });
}

export function jobHistoryQuery(id: string) {
  return queryOptions({
    queryKey: ["jobs", "history", id],
    queryFn: async ({ signal }) => {
      const params = { path: { job_id: id } };
      return (await unwrap(client.GET("/api/v1/jobs/{job_id}/history", { params, signal }))).items;
    },
  });
}

export function chargebackJobsQuery(filter: {
  start: string;
  end: string;
  node: string;
  as_of?: string;
  pool?: string;
  usage_class?: ChargeClass;
  user?: string;
  cluster?: string;
  priority_class?: string;
  job_type?: string;
}) {
  return infiniteQueryOptions({
    ...paging,
    queryKey: ["reports", "jobs", filter],
    queryFn: async ({ pageParam, signal }) =>
      // The same address also gives CSV, as text; only when it is asked for.
      (await unwrap(
        client.GET("/api/v1/reports/chargeback/jobs", {
          params: { query: { ...filter, limit: 500, cursor: pageParam } },
          signal,
        }),
      )) as Page<ChargebackJob>,
  });
}

/** My tokens, or those of another account. */
export function tokensQuery(user?: string) {
  return queryOptions({
    queryKey: ["tokens", user ?? null],
    queryFn: ({ signal }) =>
      readWhole((cursor) =>
        unwrap(client.GET("/api/v1/tokens", { params: { query: { user, limit: WHOLE_LIMIT, cursor } }, signal })),
      ),
  });
}

export function sessionsQuery(user?: string) {
  return queryOptions({
    queryKey: ["sessions", user ?? null],
    queryFn: ({ signal }) =>
      readWhole((cursor) =>
        unwrap(client.GET("/api/v1/sessions", { params: { query: { user, limit: WHOLE_LIMIT, cursor } }, signal })),
      ),
  });
}

/** The second factors of one account; without `user`, my own. */
export function secondFactorsQuery(user?: string) {
  return queryOptions({
    queryKey: ["second-factors", user ?? null],
    queryFn: ({ signal }) => unwrap(client.GET("/api/v1/second-factors", { params: { query: { user } }, signal })),
  });
}

/** Jobs that archiving a cluster has to decide about; read anew each time they are shown. */
export function workOnClusterQuery(id: string) {
  return queryOptions({
    queryKey: ["clusters", "archive", id],
    staleTime: 0,
    gcTime: 0,
    queryFn: ({ signal }) =>
      unwrap(client.GET("/api/v1/clusters/{cluster_id}/archive", { params: { path: { cluster_id: id } }, signal })),
  });
}

/** Jobs that archiving a pool has to decide about; read anew each time they are shown. */
export function workInPoolQuery(id: string) {
  return queryOptions({
    queryKey: ["clusters", "pools", "archive", id],
    staleTime: 0,
    gcTime: 0,
    queryFn: ({ signal }) =>
      unwrap(client.GET("/api/v1/pools/{pool_id}/archive", { params: { path: { pool_id: id } }, signal })),
  });
}

/** Jobs that deactivating a user has to decide about; read anew each time they are shown. */
export function workToDeactivateQuery(id: string) {
  return queryOptions({
    queryKey: ["users", "deactivate", id],
    staleTime: 0,
    gcTime: 0,
    queryFn: ({ signal }) =>
      unwrap(client.GET("/api/v1/users/{user_id}/deactivate", { params: { path: { user_id: id } }, signal })),
  });
}

/** The people that I may see, by login. */
export function usersQuery() {
  return infiniteQueryOptions({
    queryKey: ["users"],
    queryFn: ({ pageParam, signal }) =>
      unwrap(client.GET("/api/v1/users", { params: { query: { limit: PAGE_LIMIT, cursor: pageParam } }, signal })),
    ...paging,
  });
}
