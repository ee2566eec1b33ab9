import type { SbatchNote } from "../api/types";

const VERDICTS: Record<SbatchNote["verdict"], { mark: string; tone: string }> = {
  understood: { mark: "✓", tone: "good-text" },
  ignored: { mark: "○", tone: "dim" },
  refused: { mark: "✕", tone: "bad-text" },
};

/** Line by line: what of an sbatch script was understood, ignored or refused, and why. */
export function SbatchNotes({ notes }: { notes: readonly SbatchNote[] }) {
  const lines = notes.filter((note) => note.line > 0);
  const count = (verdict: SbatchNote["verdict"]) => lines.filter((note) => note.verdict === verdict).length;
  if (lines.length === 0) return <WholeNotes notes={notes} />;
  return (
    <>
      <WholeNotes notes={notes} />
      <p className="dim">
        {count("understood")} understood, {count("ignored")} ignored, {count("refused")} refused.
      </p>
      <table aria-label="What was read from the script">
        <thead>
          <tr>
            <th scope="col" className="n">
              Line
            </th>
            <th scope="col">Text</th>
            <th scope="col">Verdict</th>
          </tr>
        </thead>
        <tbody>
          {lines.map((note, i) => {
            const { mark, tone } = VERDICTS[note.verdict];
            return (
              <tr key={`${note.line} ${i}`}>
                <td className="n mono">{note.line}</td>
                <td>
                  <code>{note.text}</code>
                </td>
                <td>
                  <span className={tone}>
                    <span aria-hidden="true">{mark} </span>
                    {note.verdict}
                  </span>
                  {note.detail && <div className="small dim">{note.detail}</div>}
                </td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </>
  );
}

/** What is to be said of the request as a whole rather than of a line of it. */
export function WholeNotes({ notes }: { notes: readonly SbatchNote[] }) {
  return notes.filter((note) => note.line === 0).map((note) => <p key={note.detail}>{note.detail}</p>);
}
