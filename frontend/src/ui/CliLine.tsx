import { useClipboard } from "@mantine/hooks";


/** The command that gives the same as the page, with a button that copies it. */
export function CliLine({ command }: { command: string }) {
  const clipboard = useClipboard({ timeout: 1500 });
  return (
    <span className="cli">
      <code>{command}</code>
      <button
        type="button"
        className="plain link small"
        aria-label={`Copy: ${command}`}
        onClick={() => clipboard.copy(command)}
      >
        {clipboard.copied ? "copied" : "copy"}
      </button>
    </span>
  );
}
