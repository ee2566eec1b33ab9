import type { SbatchNote } from "../api/types";
import { DataTable } from "../ui/DataTable";

const VERDICTS: Record<SbatchNote["verdict"], { mark: string; tone: string }> = {
  understood: { mark: "✓", tone: "good-text" },
  ignored: { mark: "○", tone: "dim" },
  refused: { mark: "✕", tone: "bad-text" },
  warning: { mark: "!", tone: "stale-text" },
};

/** Line by line: what of an sbatch script was understood, ignored or refused, what it may lack, and why. */
export function SbatchNotes({ notes }: { notes: readonly SbatchNote[] }) {
  const lines = notes.filter((note) => note.line > 0);
  const count = (verdict: SbatchNote["verdict"]) => lines.filter((note) => note.verdict === verdict).length;
  if (lines.length === 0) return <WholeNotes notes={notes} />;
  return (
    <>
      <WholeNotes notes={notes} />
      <p className="dim">
        {count("understood")} understood, {count("ignored")} ignored, {count("refused")} refused
        {count("warning") > 0 && `, ${count("warning")} with a warning`}.
      </p>
      <DataTable
        label="What was read from the script"
        rows={lines}
        rowKey={(note, i) => `${note.line} ${i}`}
        columns={[
          { header: "Line", isRight: true, className: "mono", cell: (note) => note.line },
          { header: "Text", cell: (note) => <code>{note.text}</code> },
          {
            header: "Verdict",
            cell: (note) => (
              <>
                <span className={VERDICTS[note.verdict].tone}>
                  <span aria-hidden="true">{VERDICTS[note.verdict].mark} </span>
                  {note.verdict}
                </span>
                {note.detail && <div className="small dim">{note.detail}</div>}
              </>
            ),
          },
        ]}
      />
    </>
  );
}

/** What is to be said of the request as a whole rather than of a line of it. */
export function WholeNotes({ notes }: { notes: readonly SbatchNote[] }) {
  return notes.filter((note) => note.line === 0).map((note) => <p key={note.detail}>{note.detail}</p>);
}
