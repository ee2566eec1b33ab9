/** Documents as HTML, and as sections for the search. */
import { Marked, type Token, type Tokens } from "marked";

import { addressOf, pictureOf } from "./documents";

/** A heading with the text up to the next one. */
export interface Section {
  document: string;
  /** The title of the document. */
  title: string;
  heading: string;
  /** The part of the address after `#`; empty at the top of the document. */
  anchor: string;
  text: string;
}

/** Deeper headings belong to the section above them. */
const SECTION_DEPTH_MAX = 3;

/** Return anchors of headings as GitHub makes them: the second of the same name ends in `-1`. */
function anchors(): (heading: string) => string {
  const seen = new Map<string, number>();
  return (heading) => {
    const plain = heading
      .toLowerCase()
      .replace(/[^\p{L}\p{N}\s_-]/gu, "")
      .trim()
      .replace(/\s/g, "-");
    const count = seen.get(plain) ?? 0;
    seen.set(plain, count + 1);
    return count === 0 ? plain : `${plain}-${count}`;
  };
}

/** Return the text of a token without its marks. */
function plainText(token: Token): string {
  if (token.type === "table") {
    const { header, rows } = token as Tokens.Table;
    return [header, ...rows].map((row) => row.map((cell) => cell.tokens.map(plainText).join("")).join(" ")).join("\n");
  }
  if (token.type === "list") return (token as Tokens.List).items.map((item) => item.tokens.map(plainText).join(" ")).join("\n");
  if (token.type === "html" || token.type === "space") return "";
  const inner = "tokens" in token ? token.tokens : undefined;
  if (inner) return inner.map(plainText).join("");
  return "text" in token ? String(token.text) : "";
}

/** Return the title of a document, which is its first line. */
export function titleOf(markdown: string): string {
  return /^# (.*)$/m.exec(markdown)?.[1] ?? "";
}

/** Return the HTML of a document without its title. It is our own text, so that its HTML is let through. */
export function renderDocument(name: string, markdown: string): string {
  const anchorOf = anchors();
  const cells = new Set<string>();
  const marked = new Marked({
    renderer: {
      heading({ tokens, depth }) {
        if (depth === 1) return "";
        const anchor = anchorOf(tokens.map(plainText).join(""));
        return `<h${depth} id="${anchor}">${this.parser.parseInline(tokens)}</h${depth}>\n`;
      },
      link({ href, tokens }) {
        const text = this.parser.parseInline(tokens);
        const address = addressOf(href, name);
        return address === undefined ? text : `<a href="${address}">${text}</a>`;
      },
      image({ href, text }) {
        const address = pictureOf(href);
        return address === undefined ? text : `<img src="${address}" alt="${text.replaceAll('"', "&quot;")}" loading="lazy">`;
      },
      table({ header, rows }) {
        const cell = (each: Tokens.TableCell, tag: "td" | "th") => {
          // An empty heading says nothing to anybody.
          const name = each.text === "" ? "td" : tag;
          return `<${name}>${this.parser.parseInline(each.tokens)}</${name}>`;
        };
        const line = (row: Tokens.TableCell[]) => {
          const anchor = codeIn(row[0], cells);
          return `<tr${anchor === undefined ? "" : ` id="${anchor}"`}>${row.map((each) => cell(each, "td")).join("")}</tr>`;
        };
        return `<div class="wide" tabindex="0" role="group" aria-label="Table"><table><thead><tr>${header
          .map((each) => cell(each, "th"))
          .join("")}</tr></thead><tbody>${rows.map(line).join("")}</tbody></table></div>\n`;
      },
      html({ text }) {
        return text.startsWith("<!--") ? "" : text;
      },
    },
  });
  // A region that scrolls sideways must be reachable by keyboard.
  return marked.parse(markdown, { async: false }).replaceAll("<pre>", '<pre tabindex="0">');
}

/** Return the code that a row begins with, which is its anchor: a reason, or the name of a setting. */
function codeIn(cell: Tokens.TableCell | undefined, seen: Set<string>): string | undefined {
  const [token, ...more] = cell?.tokens ?? [];
  if (token?.type !== "codespan" || more.length > 0) return undefined;
  const code = (token as Tokens.Codespan).text;
  if (!/^\w+$/.test(code) || seen.has(code)) return undefined;
  seen.add(code);
  return code;
}

/** Return the sections of a document in their order. */
export function sectionsOf(name: string, markdown: string): Section[] {
  const anchorOf = anchors();
  const sections: Section[] = [];
  let title = name;
  for (const token of new Marked().lexer(markdown)) {
    if (token.type === "heading") {
      const heading = plainText(token);
      const anchor = anchorOf(heading);
      const { depth } = token as Tokens.Heading;
      if (depth === 1) title = heading;
      if (depth <= SECTION_DEPTH_MAX) {
        sections.push({ document: name, title, heading, anchor: depth === 1 ? "" : anchor, text: "" });
        continue;
      }
    }
    const last = sections.at(-1);
    if (last) last.text = `${last.text} ${plainText(token)}`.trim();
  }
  return sections;
}
