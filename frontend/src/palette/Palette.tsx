import { createSpotlight, Spotlight } from "@mantine/spotlight";
import { useDebouncedValue } from "@mantine/hooks";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useEffect, useState } from "react";

import { someJobsQuery, treeQuery } from "../api/queries";
import type { Session } from "../api/types";
import { guideQuery } from "../guide/queries";
import { may } from "../session/access";
import { sectionsOf } from "../shell/pages";
import "@mantine/spotlight/styles.css";
import "./palette.css";

const [store, dialog] = createSpotlight();

/** The most entries of each kind. */
const SHOWN_MAX = 6;
/** Pause after the last key before the server is asked. */
const SEARCH_AFTER_MS = 200;

interface Entry {
  key: string;
  label: string;
  detail?: string;
  /** The address without the part of a document. */
  href: string;
}

/** A dialog that finds pages, nodes, jobs and parts of the guide by a few letters. Each new `opening` opens it. */
export function Palette({ session, opening }: { session: Session; opening: number }) {
  const [typed, setTyped] = useState("");
  useEffect(() => dialog.open(), [opening]);
  const navigate = useNavigate();
  const words = typed.trim();
  const [asked] = useDebouncedValue(words, SEARCH_AFTER_MS);
  const tree = useQuery({ ...treeQuery, enabled: may(session, "view_tree") });
  const jobs = useQuery({
    ...someJobsQuery({ q: asked }, SHOWN_MAX),
    enabled: asked !== "",
    placeholderData: keepPreviousData,
  });
  const guide = useQuery({ ...guideQuery, enabled: asked !== "" });
  const has = hasWords(words);
  const pages = sectionsOf(session).flatMap(({ title, items }) =>
    items
      .filter(({ label }) => has(`${title ?? ""} ${label}`))
      .map(({ to, label }): Entry => ({ key: to, label, detail: title ?? undefined, href: to })),
  );
  const nodes = words === "" ? [] : (tree.data ?? [])
    .filter(({ path }) => has(path))
    .map(({ path, kind }): Entry => ({ key: path, label: path, detail: kind, href: `/quotas?node=${encodeURIComponent(path)}` }));
  const found = words === "" ? [] : (jobs.data?.items ?? [])
    .map(({ id, name, state, team }): Entry => ({ key: id, label: name, detail: `${state} · ${team}`, href: `/jobs/${id}` }));
  const parts = words === "" ? [] : (guide.data?.find(words) ?? [])
    .map(({ document, anchor, heading, title }): Entry => ({
      key: `${document}#${anchor}`,
      label: heading,
      detail: title,
      href: `/guide/${document}${anchor ? `#${anchor}` : ""}`,
    }));
  const groups = [
    ["Pages", words === "" ? pages : pages.slice(0, SHOWN_MAX)],
    ["Jobs", found],
    ["Nodes of the tree", nodes.slice(0, SHOWN_MAX)],
    ["Guide", parts.slice(0, SHOWN_MAX)],
  ] as const;
  const isSearching = asked !== words || jobs.isFetching || guide.isFetching;
  return (
    <Spotlight.Root
      store={store}
      query={typed}
      onQueryChange={setTyped}
      shortcut={null}
      scrollable
      maxHeight={420}
      title="Go to"
    >
      <Spotlight.Search placeholder="A page, a job, a team, a question…" aria-label="Go to" />
      <Spotlight.ActionsList>
        {groups.map(([label, entries]) => entries.length > 0 && (
          <Spotlight.ActionsGroup key={label} label={label}>
            {entries.map(({ key, label: name, detail, href }) => (
              <Spotlight.Action key={key} label={name} description={detail} onClick={() => void navigate({ href })} />
            ))}
          </Spotlight.ActionsGroup>
        ))}
        {groups.every(([, entries]) => entries.length === 0) && (
          <Spotlight.Empty>{isSearching ? "Searching…" : "Nothing has this name. Try fewer letters."}</Spotlight.Empty>
        )}
      </Spotlight.ActionsList>
    </Spotlight.Root>
  );
}

/** Return a test whether a text has all words, in any order and case. */
function hasWords(words: string): (text: string) => boolean {
  const wanted = words.toLowerCase().split(/\s+/);
  return (text) => {
    const lower = text.toLowerCase();
    return wanted.every((word) => lower.includes(word));
  };
}
