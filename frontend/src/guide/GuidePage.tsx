import { TextInput } from "@mantine/core";
import { useDebouncedCallback } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { Link, useLocation, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { useEffect, useMemo, useState, type MouseEvent } from "react";

import { Card } from "../ui/Card";
import { Page } from "../ui/Page";
import { Empty, QueryView } from "../ui/states";
import { isPlainClick } from "../ui/isPlainClick";
import { FIRST } from "./documents";
import { documentQuery, guideQuery } from "./queries";
import { renderDocument, titleOf } from "./rendering";
import "./guide.css";

/** Pause after the last key before the address follows. */
const SEARCH_AFTER_MS = 250;

/** The guide: its search, and the document that is open. */
export function GuidePage() {
  const { document = FIRST } = useParams({ strict: false });
  const { q = "" } = useSearch({ strict: false });
  const navigate = useNavigate();
  const text = useQuery(documentQuery(document));
  const [typed, setTyped] = useState(q);
  const search = useDebouncedCallback((words: string) => {
    void navigate({ to: ".", search: (old) => ({ ...old, q: words.trim() || undefined }), replace: true });
  }, SEARCH_AFTER_MS);
  return (
    <Page
      title={text.data ? titleOf(text.data) : "Guide"}
      up={document === FIRST ? undefined : <Link to="/guide">Guide</Link>}
    >
      <TextInput
        type="search"
        className="guide-search"
        label="Search the guide"
        placeholder="budget, preempted, time limit…"
        value={typed}
        onChange={(event) => {
          setTyped(event.currentTarget.value);
          search(event.currentTarget.value);
        }}
      />
      {q ? (
        <Results query={q} onOpen={() => setTyped("")} />
      ) : (
        <Card>
          <QueryView query={text}>
            {(markdown) =>
              markdown === null ? (
                <Empty>
                  The guide has no document of this name. <Link to="/guide">Go to its beginning.</Link>
                </Empty>
              ) : (
                <Text name={document} markdown={markdown} />
              )
            }
          </QueryView>
        </Card>
      )}
    </Page>
  );
}

function Results({ query, onOpen }: { query: string; onOpen: () => void }) {
  const guide = useQuery(guideQuery);
  return (
    <Card label={`Found for “${query}”`}>
      <QueryView query={guide}>
        {(loaded) => {
          const found = loaded.find(query);
          if (found.length === 0) return <Empty>Nothing has all of these words. Try fewer, or other ones.</Empty>;
          return (
            <ol className="guide-found">
              {found.map(({ document, title, heading, anchor, excerpt }) => (
                <li key={`${document}#${anchor}`}>
                  <Link to="/guide/$document" params={{ document }} hash={anchor} search={{}} onClick={onOpen}>
                    {heading}
                  </Link>
                  {heading !== title && <span className="dim small"> in {title}</span>}
                  <p className="small">{excerpt}</p>
                </li>
              ))}
            </ol>
          );
        }}
      </QueryView>
    </Card>
  );
}

function Text({ name, markdown }: { name: string; markdown: string }) {
  const navigate = useNavigate();
  const { hash } = useLocation();
  const html = useMemo(() => renderDocument(name, markdown), [name, markdown]);
  useEffect(() => {
    // The browser looked for the place before the text was there.
    if (hash) globalThis.document.getElementById(hash)?.scrollIntoView();
  }, [hash, html]);
  // Links between documents stay in the page.
  const follow = (event: MouseEvent) => {
    const link = (event.target as Element).closest("a");
    const [, document, hash] = /^\/guide\/([^#]+)#?(.*)$/.exec(link?.getAttribute("href") ?? "") ?? [];
    if (document === undefined || !isPlainClick(event)) return;
    event.preventDefault();
    void navigate({ to: "/guide/$document", params: { document }, hash, search: {} });
  };
  return <article className="guide-text" onClick={follow} dangerouslySetInnerHTML={{ __html: html }} />;
}
