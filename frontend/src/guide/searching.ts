/** The search over all documents. */
import MiniSearch from "minisearch";

import { documentNames, loadDocument } from "./documents";
import { sectionsOf, type Section } from "./rendering";

export interface Found extends Pick<Section, "document" | "title" | "heading" | "anchor"> {
  /** The text around the first word that was found. */
  excerpt: string;
}

export const FOUND_MAX = 20;
const EXCERPT_LENGTH = 180;

type Indexed = Section & { id: number };

export class Guide {
  private readonly sections: Indexed[];
  private readonly index: MiniSearch<Indexed>;

  constructor(sections: readonly Section[]) {
    this.sections = sections.map((each, id) => ({ ...each, id }));
    this.index = new MiniSearch({
      fields: ["heading", "title", "text"],
      searchOptions: {
        boost: { heading: 4, title: 2 },
        combineWith: "AND",
        prefix: true,
        // A typing mistake for each five letters.
        fuzzy: (term) => (term.length > 4 ? 0.2 : false),
      },
    });
    this.index.addAll(this.sections);
  }

  /** Return the sections that have all words of `query`, the best first, at most `FOUND_MAX`. */
  find(query: string): Found[] {
    return this.index.search(query).slice(0, FOUND_MAX).flatMap(({ id, terms }) => {
      const section = this.sections[Number(id)];
      return section ? [{ ...section, excerpt: excerptOf(section.text, terms) }] : [];
    });
  }
}

function excerptOf(text: string, terms: readonly string[]): string {
  const places = terms.map((term) => text.toLowerCase().indexOf(term)).filter((place) => place >= 0);
  const wanted = Math.max(0, Math.min(...places, text.length) - EXCERPT_LENGTH / 3);
  const first = places.length === 0 || wanted === 0 ? 0 : text.indexOf(" ", wanted) + 1;
  const cut = text.slice(first, first + EXCERPT_LENGTH);
  return `${first > 0 ? "… " : ""}${cut}${first + cut.length < text.length ? " …" : ""}`;
}

/** Return the search over all documents, which loads them. */
export async function loadGuide(): Promise<Guide> {
  const sections = await Promise.all(
    documentNames().map(async (name) => sectionsOf(name, (await loadDocument(name)) ?? "")),
  );
  return new Guide(sections.flat());
}
