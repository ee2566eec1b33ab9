import { settingsOf, subjectParts, type Sides, type SubjectNames } from "./pushes";

/** Objects by their kind and the node of the tree; all others as the cluster names them. */
export function Subject({ subject, names }: { subject: string; names: SubjectNames }) {
  const { thing, name, path } = subjectParts(subject, names);
  return thing === "" ? (
    <code>{name}</code>
  ) : (
    <>
      {thing} <code>{path || name}</code>
      {path && <div className="small faint">{name}</div>}
    </>
  );
}

/** One side of a difference; what is not there on that side at all is one dash. */
export function Settings({ change, side }: { change: Sides; side: "before" | "after" }) {
  if (Object.keys(change[side]).length === 0) return <span className="faint">–</span>;
  return settingsOf(change).map((setting) => (
    <div key={setting.name}>
      <span className="faint small">{setting.name}</span> {setting[side]}
    </div>
  ));
}
