import { csvAddress, type Asked, type CsvTable } from "./queries";

/** Saves the numbers of a chart. */
export function CsvLink({ asked, table }: { asked: Asked; table: CsvTable }) {
  return (
    <a className="small" href={csvAddress(asked, table)} download aria-label={`Save ${table} as CSV`}>
      CSV
    </a>
  );
}
