import { Button } from "@mantine/core";
import { useClipboard } from "@mantine/hooks";

/** Recovery codes, this once: to copy, to download, and to confirm that they are stored. */
export function RecoveryCodes({ login, codes, onStored }: { login: string; codes: readonly string[]; onStored: () => void }) {
  const clipboard = useClipboard({ timeout: 2000 });
  const text = `Recovery codes of ${login} for Tidegate. Each works once.\n\n${codes.join("\n")}\n`;
  return (
    <div className="stack" role="status">
      <p>
        Store these recovery codes where you find them without your device. Each replaces the second factor once. They are
        shown this once.
      </p>
      <ul className="recovery-codes" aria-label="Recovery codes">
        {codes.map((code) => (
          <li key={code}>
            <code>{code}</code>
          </li>
        ))}
      </ul>
      <div className="inline">
        <Button
          component="a"
          variant="default"
          size="xs"
          href={`data:text/plain;charset=utf-8,${encodeURIComponent(text)}`}
          download="tidegate-recovery-codes.txt"
        >
          Download
        </Button>
        <Button variant="default" size="xs" onClick={() => clipboard.copy(text)}>
          {clipboard.copied ? "Copied" : "Copy"}
        </Button>
      </div>
      <div>
        <Button onClick={onStored}>I have stored them</Button>
      </div>
    </div>
  );
}
