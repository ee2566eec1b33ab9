/** The documentation, as people read it in the portal. Each file of docs/ is loaded when somebody reads it. */
const FILES = import.meta.glob<string>(
  [
    "../../../docs/guide/*.md",
    "../../../docs/operate/*.md",
    "../../../docs/reference/*.md",
    "../../../docs/{glossary,kubernetes,local,scheduling,slurm}.md",
  ],
  { query: "?raw", import: "default" },
);
const PICTURES = import.meta.glob<string>("../../../docs/guide/pictures/*.png", { query: "?url", import: "default", eager: true });

/** The document with which the guide begins. */
export const FIRST = "guide";

/** The place in docs/ of each document, by its name in addresses: `guide/requests.md` is `requests`. */
const PLACES = new Map(Object.keys(FILES).map((file) => [nameOf(placeOf(file)), placeOf(file)]));

function placeOf(file: string): string {
  return file.replace("../../../docs/", "");
}

function nameOf(place: string): string {
  return place
    .replace(/\.md$/, "")
    .replace(/\/README$/, "")
    .replace(/^guide\//, "")
    .replaceAll("/", "-");
}

/** The names of all documents. */
export const documentNames = (): string[] => [...PLACES.keys()];

/** Return the text of a document in Markdown, or undefined for an unknown name. */
export async function loadDocument(name: string): Promise<string | undefined> {
  const place = PLACES.get(name);
  return place === undefined ? undefined : await FILES[`../../../docs/${place}`]?.();
}

/** Return the portal's address of a link in a document; undefined for files that the portal does not show. */
export function addressOf(link: string, from: string): string | undefined {
  if (/^[a-z]+:/.test(link)) return link;
  if (link.startsWith("#")) return `/guide/${from}${link}`;
  const [path = "", hash] = link.split("#");
  const place = new URL(path, `file:///${PLACES.get(from) ?? ""}`).pathname.slice(1);
  const name = nameOf(place);
  if (PLACES.get(name) !== place) return undefined;
  return `/guide/${name}${hash === undefined ? "" : `#${hash}`}`;
}

/** Return the address of a picture that a document shows. */
export function pictureOf(link: string): string | undefined {
  return PICTURES[`../../../docs/guide/${link}`];
}
