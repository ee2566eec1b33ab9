/** The pages of the portal, as the navigation and the search show them. */
import { may, type Permission } from "../session/access";
import type { Session } from "../api/types";

export interface NavItem {
  to: "/" | "/jobs" | "/schedules" | "/templates" | "/submit" | "/quotas" | "/quota-changes" | "/requests" | "/fair-share" | "/capacity" | "/policy" | "/credits" | "/chargeback" | "/budgets" | "/adjustments" | "/prices" | "/reconciliation" | "/periods" | "/clusters" | "/decisions" | "/announcements" | "/maintenance" | "/access" | "/audit" | "/people" | "/organizations" | "/sign-in" | "/guide";
  label: string;
  needs?: Permission;
}

const SECTIONS: { title: string | null; items: NavItem[] }[] = [
  {
    title: null,
    items: [
      { to: "/", label: "Home" },
      { to: "/jobs", label: "Jobs" },
      { to: "/schedules", label: "Schedules" },
      { to: "/templates", label: "Templates", needs: "submit_jobs" },
      { to: "/submit", label: "Submit", needs: "submit_jobs" },
    ],
  },
  {
    title: "Share",
    items: [
      { to: "/quotas", label: "Quotas", needs: "view_tree" },
      { to: "/quota-changes", label: "Planned changes", needs: "view_tree" },
      { to: "/requests", label: "Requests", needs: "view_tree" },
      { to: "/fair-share", label: "Fair share", needs: "view_tree" },
      { to: "/credits", label: "Credits", needs: "view_tree" },
      { to: "/policy", label: "Policy", needs: "view_tree" },
    ],
  },
  {
    title: "Money",
    items: [
      { to: "/chargeback", label: "Chargeback", needs: "view_costs" },
      { to: "/budgets", label: "Budgets", needs: "view_tree" },
      { to: "/adjustments", label: "Adjustments", needs: "view_costs" },
      { to: "/prices", label: "Prices", needs: "view_costs" },
      { to: "/reconciliation", label: "Reconciliation", needs: "view_costs" },
      { to: "/periods", label: "Periods", needs: "manage_prices" },
    ],
  },
  {
    title: "Fleet",
    items: [
      { to: "/capacity", label: "Capacity", needs: "view_tree" },
      { to: "/clusters", label: "Clusters" },
      { to: "/decisions", label: "Decisions" },
      { to: "/maintenance", label: "Maintenance" },
      { to: "/announcements", label: "Announcements" },
    ],
  },
  {
    title: "Access",
    items: [
      { to: "/access", label: "My access" },
      { to: "/organizations", label: "Organizations", needs: "manage_clusters" },
      { to: "/people", label: "People", needs: "manage_members" },
      { to: "/sign-in", label: "Sign-in", needs: "manage_members" },
      { to: "/audit", label: "Audit log", needs: "view_audit" },
    ],
  },
  { title: "Help", items: [{ to: "/guide", label: "Guide" }] },
];

/** Return the sections with the pages that a person may open. */
export function sectionsOf(session: Session): typeof SECTIONS {
  return SECTIONS.map(({ title, items }) => ({
    title,
    items: items.filter(({ needs }) => needs === undefined || may(session, needs)),
  })).filter(({ items }) => items.length > 0);
}
