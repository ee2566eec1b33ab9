/** What the addresses of the cluster pages carry. */
import { choiceParam, textParam, type RawSearch } from "../shell/search";

export const CLUSTER_TABS = ["nodes", "users", "quotas", "options", "use"] as const;
export const NODE_CHOICES = ["out", "busy"] as const;

/** `q` and `show` narrow the nodes; `push`: the comparison of quotas that is open. */
export interface ClusterSearch {
  tab?: (typeof CLUSTER_TABS)[number];
  q?: string;
  show?: (typeof NODE_CHOICES)[number];
  push?: string;
}

export const clusterSearch = (search: RawSearch): ClusterSearch => ({
  tab: choiceParam(search, "tab", CLUSTER_TABS),
  q: textParam(search, "q"),
  show: choiceParam(search, "show", NODE_CHOICES),
  push: textParam(search, "push"),
});

export interface AddClusterSearch {
  kind?: string;
}

export const addClusterSearch = (search: RawSearch): AddClusterSearch => ({
  kind: textParam(search, "kind"),
});
