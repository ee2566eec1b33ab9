import { describe, expect, it } from "vitest";

import type { Job } from "../api/types";
import { isStale, needsMore, NO_ROWS, outdated, partsAt, withNext, withPage, type JobRows } from "./rows";

function job(id: number | string): Job {
  return { id: String(id) } as Job;
}

/** A page of these jobs, and where the next one begins. */
function page(ids: readonly (number | string)[], cursor: string | null) {
  return { items: ids.map(job), next: cursor === null ? null : `/api/v1/jobs?cursor=${cursor}` };
}

/** Three pages: 1 to 3, 4 to 6 and 7 to 9, and more after them. */
function nine(): JobRows {
  const first = withNext(NO_ROWS, page([1, 2, 3], "3"), 1_000);
  return withNext(withNext(first, page([4, 5, 6], "6"), 2_000), page([7, 8, 9], "9"), 3_000);
}

function idsIn(rows: JobRows): string[][] {
  return rows.parts.map(({ items }) => items.map(({ id }) => id));
}

describe("the loaded rows of the list of jobs", () => {
  it("have a part for each page, and know which of them are in view", () => {
    const rows = nine();
    expect(idsIn(rows)).toEqual([["1", "2", "3"], ["4", "5", "6"], ["7", "8", "9"]]);
    expect(rows.parts.map(({ cursor }) => cursor)).toEqual([undefined, "3", "6"]);
    expect(rows.next).toBe("9");
    expect(partsAt(rows, 2, 3).map(({ cursor }) => cursor)).toEqual([undefined, "3"]);
    expect(partsAt(rows, 6, 8).map(({ cursor }) => cursor)).toEqual(["6"]);
    expect(rows.parts.map((part) => isStale(part, 7_500))).toEqual([true, true, false]);
    expect(outdated(rows).parts.map((part) => isStale(part, 7_500))).toEqual([true, true, true]);
  });

  it("ask for more near their end, and not after the last page", () => {
    expect(needsMore(nine(), 0)).toBe(true);
    expect(needsMore({ ...nine(), next: null }, 8)).toBe(false);
    const many = withNext(NO_ROWS, page(Array.from({ length: 100 }, (_, i) => i), "99"), 0);
    expect([needsMore(many, 39), needsMore(many, 40)]).toEqual([false, true]);
  });

  // Planted: the jobs that new ones push out of a page are dropped.
  it("lose none when new jobs push others out of a page that is read again", () => {
    const rows = withPage(nine(), undefined, page(["new", 1, 2], "2"), 9_000);
    expect(idsIn(rows)).toEqual([["new", "1", "2"], ["3", "4", "5", "6"], ["7", "8", "9"]]);
    expect(rows.parts.map(({ cursor, readAtMs }) => [cursor, readAtMs])).toEqual([
      [undefined, 9_000],
      ["2", 0],
      ["6", 3_000],
    ]);
    const all = withPage(nine(), "6", page(["a", "b", "c"], "c"), 9_000);
    expect(idsIn(all)).toEqual([["1", "2", "3"], ["4", "5", "6"], ["a", "b", "c"], ["7", "8", "9"]]);
    expect(all.next).toBe("9");
  });

  // Planted: a page is taken whole where it reaches into the next part.
  it("have no job twice when others have left", () => {
    const rows = withPage(nine(), undefined, page([2, 3, 4], "4"), 9_000);
    expect(idsIn(rows)).toEqual([["2", "3"], ["4", "5", "6"], ["7", "8", "9"]]);
    expect(idsIn(withPage(nine(), "3", page([7, 8, 9], "9"), 9_000))).toEqual([["1", "2", "3"], ["7", "8", "9"]]);
  });

  // Planted: what left the end of the last part stays there.
  it("go on behind the last page when a job of it has left", () => {
    const rows = withPage(nine(), "6", page([7, 8, 10], "10"), 9_000);
    expect(idsIn(rows)).toEqual([["1", "2", "3"], ["4", "5", "6"], ["7", "8", "10"]]);
    expect(rows.next).toBe("10");
  });

  it("end where a page that is read again is the last one", () => {
    const rows = withPage(nine(), "3", page([4], null), 9_000);
    expect(idsIn(rows)).toEqual([["1", "2", "3"], ["4"]]);
    expect(rows.next).toBeNull();
  });

  // Planted: a job that has moved stays where it was, too.
  it("have a job that has moved at its new place only", () => {
    expect(idsIn(withPage(nine(), "6", page([2, 7, 8, 9], "9"), 9_000))).toEqual([["1", "3"], ["4", "5", "6"], ["2", "7", "8", "9"]]);
    expect(idsIn(withNext(nine(), page([1, 10], null), 9_000))).toEqual([["2", "3"], ["4", "5", "6"], ["7", "8", "9"], ["1", "10"]]);
  });

  it("are the same after a page of a part that is no more", () => {
    const rows = nine();
    expect(withPage(rows, "gone", page([1], null), 9_000)).toBe(rows);
  });
});
