import { act, fireEvent, screen, waitFor, within } from "@testing-library/react";
import { describe, expect, it } from "vitest";

import { theJobs } from "../../mock/jobs";
import type { Job } from "../api/types";
import { accessibilityFaults, open, type Override } from "../test/render";
import { apiFilter, columnsOf, csvAddress, DEFAULT_COLUMNS, jobsSearch, listCommand, nextSort } from "./search";

const SEARCH = jobsSearch({
  state: "queued,nonsense",
  class: "high",
  runs_as: "borrowed",
  q: "two words",
  since: "2026-11-20T23:00:00Z",
  ended_until: "2026-11-22T00:00:00+01:00",
  sort: "-gpus",
  columns: "ended_at,team,nonsense",
});

describe("the address of the list of jobs", () => {
  it("becomes the filter, the command and the download", () => {
    expect(apiFilter({ ...SEARCH, scope: "ai-company/research" })).toEqual({
      state: ["queued"],
      team: "ai-company/research",
      priority_class: "high",
      usage_class: "borrowed",
      q: "two words",
      submitted_at__gte: "2026-11-20T23:00:00Z",
      ended_at__lt: "2026-11-21T23:00:00Z",
    });
    expect(listCommand(SEARCH)).toBe(
      "tidegate ls --state queued,nonsense --class high --usage-class borrowed --search 'two words' --since 2026-11-20T23:00:00Z --ended-until 2026-11-21T23:00:00Z --sort -gpus",
    );
    const query = new URLSearchParams(csvAddress(SEARCH).split("?")[1]);
    expect(Object.fromEntries(query)).toEqual({
      format: "csv",
      state: "queued",
      priority_class: "high",
      usage_class: "borrowed",
      q: "two words",
      submitted_at__gte: "2026-11-20T23:00:00Z",
      ended_at__lt: "2026-11-21T23:00:00Z",
      sort: "-gpus",
      columns: "id,name,team,ended_at",
    });
  });

  it("ignores an order and a column that do not exist", () => {
    expect(jobsSearch({ sort: "-pool", type: "toy" })).toMatchObject({ sort: undefined, type: undefined });
    expect(columnsOf(SEARCH)).toEqual(["team", "ended_at"]);
    expect(columnsOf({ columns: "nonsense" })).toBe(DEFAULT_COLUMNS);
  });

  it("sorts amounts and times by the largest first, and the other way at the second click", () => {
    expect(nextSort("-submitted_at", "gpus")).toBe("-gpus");
    expect(nextSort("-gpus", "gpus")).toBe("gpus");
    expect(nextSort("-gpus", "name")).toBe("name");
    expect(nextSort("name", "name")).toBe("-name");
  });
});

describe("the list of jobs", () => {
  it("is sorted by the server", async () => {
    const { user, router, requests } = open("/jobs");
    const table = await screen.findByRole("table", { name: "Jobs, newest first" });
    expect(within(table).getByRole("columnheader", { name: /Submitted/ })).toHaveAttribute("aria-sort", "descending");
    await user.click(within(table).getByRole("button", { name: /^User/ }));
    await waitFor(() => expect(router.state.location.search).toEqual({ sort: "user" }));
    const sorted = await screen.findByRole("table", { name: "Jobs, sorted" });
    await waitFor(() => expect(within(sorted).getByRole("columnheader", { name: /^User/ })).toHaveAttribute("aria-sort", "ascending"));
    expect(requests.filter(({ path }) => path === "/api/v1/jobs").at(-1)?.query.get("sort")).toBe("user");
  });

  it("shows the chosen columns, and downloads them", async () => {
    const { user, router, container } = open("/jobs?columns=state,team");
    const table = await screen.findByRole("table", { name: "Jobs, newest first" });
    expect(within(table).getAllByRole("columnheader").map((head) => head.textContent.replace(/ .$/, ""))).toEqual(["", "Job", "State", "Team"]);
    await user.click(screen.getByRole("button", { name: "Columns" }));
    await user.click(await screen.findByRole("checkbox", { name: "Ended" }));
    await waitFor(() => expect(router.state.location.search).toEqual({ columns: "state,team,ended_at" }));
    expect(screen.getByRole("link", { name: "Download CSV" }).getAttribute("href")).toContain("columns=id%2Cname%2Cstate%2Cteam%2Cended_at");
    await user.click(screen.getByRole("button", { name: "Usual columns" }));
    await waitFor(() => expect(router.state.location.search).toEqual({}));
    expect(await accessibilityFaults(container)).toEqual([]);
  });

  it("opens the fields that few need, and when one of them is set", async () => {
    const { user, router } = open("/jobs");
    expect(await screen.findByRole("button", { name: "More filters" })).toHaveAttribute("aria-expanded", "false");
    expect(screen.queryByRole("textbox", { name: "Class" })).toBeNull();
    await user.click(screen.getByRole("button", { name: "More filters" }));
    await user.click(screen.getByRole("combobox", { name: "Class" }));
    await user.click(await screen.findByRole("option", { name: "high" }));
    await waitFor(() => expect(router.state.location.search).toEqual({ class: "high" }));
  });

  it("shows a field that is set in the address", async () => {
    open("/jobs?until=2026-11-22T00:00:00Z");
    expect(await screen.findByLabelText("Submitted before")).not.toHaveValue("");
  });
});

/** A list of this many jobs, page by page. `jobs` is what the server has and may be changed. */
function aLongList(count: number): { jobs: Job[]; override: Override } {
  const [model] = theJobs();
  if (model === undefined) throw new Error("the mock has no job");
  const jobs = Array.from({ length: count }, (_, i): Job => ({ ...model, id: `id-${String(i)}`, name: `job-${String(i)}` }));
  const override: Override = ({ path, query }) => {
    if (path !== "/api/v1/jobs" || query.get("limit") !== "100") return undefined;
    const cursor = query.get("cursor");
    const from = cursor === null ? 0 : jobs.findIndex(({ id }) => id === cursor) + 1;
    const items = jobs.slice(from, from + 100);
    const next = from + 100 < jobs.length ? `/api/v1/jobs?cursor=${items.at(-1)?.id ?? ""}` : null;
    return { status: 200, body: { items, next } };
  };
  return { jobs, override };
}

function scrollTo(row: number): void {
  const frame = screen.getByRole("region", { name: "Jobs, newest first" });
  act(() => {
    frame.scrollTop = 40 * row;
    fireEvent.scroll(frame);
  });
}

describe("a long list of jobs", () => {
  const cursors = (requests: readonly { path: string; query: URLSearchParams }[]) =>
    requests.filter(({ path, query }) => path === "/api/v1/jobs" && query.get("limit") === "100").map(({ query }) => query.get("cursor"));

  // Against: the next page is read once the last row is in view, and twice.
  it("reads the next page as a reader nears its end, and no page twice", async () => {
    const { requests } = open("/jobs", aLongList(250));
    expect(await screen.findByText("The first 100 jobs are loaded. More follow as you scroll.")).toBeInTheDocument();
    expect(cursors(requests)).toEqual([null]);
    scrollTo(45);
    await screen.findByText("The first 200 jobs are loaded. More follow as you scroll.");
    scrollTo(150);
    await screen.findByText("250 jobs");
    expect(cursors(requests)).toEqual([null, "id-99", "id-199"]);
    expect(screen.getByRole("table", { name: "Jobs, newest first" })).toHaveAttribute("aria-rowcount", "251");
    expect(screen.queryByRole("button", { name: /Next|more/i })).toHaveTextContent("More filters");
  });

  // Against: a change reads every loaded page again.
  it("reads what is in view again after a change, and nothing else", async () => {
    const list = aLongList(250);
    const { requests, queryClient } = open("/jobs", list);
    await screen.findByText(/^The first 100 jobs/);
    scrollTo(50);
    await screen.findByText(/^The first 200 jobs/);
    const before = cursors(requests).length;
    const changed = list.jobs[50];
    if (changed !== undefined) list.jobs[50] = { ...changed, name: "renamed" };
    list.jobs.unshift({ ...theJobs()[0], id: "id-new", name: "job-new" } as Job);
    await act(() => queryClient.invalidateQueries({ queryKey: ["jobs"] }));
    expect(await screen.findByRole("link", { name: "renamed" })).toBeInTheDocument();
    expect(cursors(requests).slice(before)).toEqual([null]);
  });

  // Against: the choice forgets what is not in view.
  it("keeps the choice of jobs that are out of view", async () => {
    const { user } = open("/jobs", aLongList(250));
    await user.click(await screen.findByRole("checkbox", { name: "Choose job-0" }));
    scrollTo(60);
    await screen.findByText(/^The first 200 jobs/);
    await user.click(screen.getByRole("checkbox", { name: "Choose job-60" }));
    const group = screen.getByRole("group", { name: "Change several jobs" });
    expect(within(group).getByText("2 jobs chosen")).toBeInTheDocument();
    scrollTo(0);
    expect(screen.getByRole("checkbox", { name: "Choose job-0" })).toBeChecked();
    await user.click(screen.getByRole("checkbox", { name: "Choose all loaded jobs" }));
    expect(within(group).getByText("200 jobs chosen")).toBeInTheDocument();
  });
});

describe("actions on several jobs", () => {
  it("shows what would change before it changes the chosen jobs", async () => {
    const { user, requests, container } = open("/jobs?state=queued");
    await user.click(await screen.findByRole("checkbox", { name: "Choose pretrain-13b" }));
    const group = screen.getByRole("group", { name: "Change several jobs" });
    expect(within(group).getByText("1 job chosen")).toBeInTheDocument();
    expect(await accessibilityFaults(container)).toEqual([]);
    await user.click(within(group).getByRole("button", { name: "Cancel…" }));
    const dialog = await screen.findByRole("dialog", { name: "Cancel the chosen jobs?" });
    expect(await within(dialog).findByText("1 job would be cancelled: 1 queued.")).toBeInTheDocument();
    expect(within(dialog).getByText("1 job of your own.")).toBeInTheDocument();
    expect(requests.filter(({ path }) => path === "/api/v1/job-actions")).toEqual([]);
    await user.click(within(dialog).getByRole("button", { name: "Cancel 1 job" }));
    expect(await screen.findByText("1 job cancelled")).toBeInTheDocument();
    const sent = requests.filter(({ path }) => path === "/api/v1/job-actions");
    expect(sent).toHaveLength(1);
    expect(sent[0]?.body).toMatchObject({ action: "cancel" });
    await waitFor(() => expect(within(group).getByText("All jobs that match")).toBeInTheDocument());
  });

  // Planted: the open dialog takes the choice of the list, which is empty by then, and asks for all jobs that match.
  it("keeps the choice of an open dialog when the chosen job leaves the list", async () => {
    const list = aLongList(3);
    const { user, requests, queryClient } = open("/jobs", list);
    await user.click(await screen.findByRole("checkbox", { name: "Choose job-0" }));
    await user.click(screen.getByRole("button", { name: "Cancel…" }));
    const dialog = await screen.findByRole("dialog", { name: "Cancel the chosen jobs?" });
    list.jobs.shift();
    await act(() => queryClient.invalidateQueries({ queryKey: ["jobs"] }));
    expect(await screen.findByText("All jobs that match")).toBeInTheDocument();
    await waitFor(() => expect(queryClient.isFetching()).toBe(0));
    expect(dialog).toHaveAccessibleName("Cancel the chosen jobs?");
    const asked = requests.filter(({ path }) => path === "/api/v1/job-actions/preview").map(({ body }) => body);
    expect(new Set(asked.map((body) => JSON.stringify(body)))).toEqual(new Set([JSON.stringify({ action: "cancel", jobs: ["id-0"] })]));
  });

  it("previews all jobs of the filter, and changes nothing where none can be", async () => {
    const { user, requests } = open("/jobs?user=ana&sort=name");
    await screen.findByRole("link", { name: "pretrain-13b" });
    await user.click(screen.getByRole("button", { name: "Release…" }));
    const dialog = await screen.findByRole("dialog", { name: "Release all jobs that match?" });
    expect(await within(dialog).findByText("No job can be released.")).toBeInTheDocument();
    expect(within(dialog).getByRole("button", { name: "Release" })).toBeDisabled();
    const asked = requests.find(({ path }) => path === "/api/v1/job-actions/preview");
    expect(asked?.query.toString()).toBe("user=ana");
    expect(asked?.body).toEqual({ action: "release", jobs: null });
  });
});
