/** A word of a command line, quoted where a shell would change it. */
export function shellQuote(text: string): string {
  return /^[A-Za-z0-9_./:@%+,=-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

/** A command with those of the options that have a value. A list is an option for each item. */
export function commandLine(command: string, options: Readonly<Record<string, string | readonly string[] | null | undefined>>): string {
  const given = Object.entries(options).flatMap(([name, value]) =>
    [value ?? []].flat().flatMap((each) => (each ? [`--${name} ${shellQuote(each)}`] : [])),
  );
  return [command, ...given].join(" ");
}
