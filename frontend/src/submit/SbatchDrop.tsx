import { Button, FileButton, Textarea } from "@mantine/core";
import { useRef, useState } from "react";

import { MAX_SCRIPT_BYTES } from "./draft";
import "./submit.css";

const SBATCH_WORDS = {
  label: "sbatch script or manifest",
  description:
    "Paste a script or a Kubernetes manifest, or drop a file here. Its #SBATCH lines or fields are read; what is not understood is said below.",
  placeholder: "#!/bin/bash\n#SBATCH --gpus=8\n#SBATCH --time=12:00:00\nsrun python train.py",
};

/** A script, a manifest or a request as text: pasted, dropped as a file, or chosen. */
export function SbatchDrop({
  words = SBATCH_WORDS,
  value,
  error,
  onChange,
}: {
  words?: { label: string; description: string; placeholder: string };
  value: string;
  error: string | undefined;
  /** `file` is the name of the file that the text came from; it is absent for typed text. */
  onChange: (text: string, file?: string) => void;
}) {
  const [isOver, setOver] = useState(false);
  const [refusal, setRefusal] = useState<string | null>(null);
  const reset = useRef<() => void>(null);
  const take = async (file: File | undefined) => {
    setOver(false);
    // The same file can be chosen again after it was edited.
    reset.current?.();
    if (file === undefined) return;
    if (file.size > MAX_SCRIPT_BYTES) {
      setRefusal(`${file.name} is larger than 1 MiB: that is no script.`);
      return;
    }
    setRefusal(null);
    onChange(await file.text(), file.name);
  };
  return (
    <div
      className={isOver ? "drop over" : "drop"}
      onDragOver={(event) => {
        event.preventDefault();
        setOver(true);
      }}
      onDragLeave={() => setOver(false)}
      onDrop={(event) => {
        event.preventDefault();
        void take(event.dataTransfer.files[0]);
      }}
    >
      <Textarea
        {...words}
        autosize
        minRows={10}
        maxRows={28}
        spellCheck={false}
        classNames={{ input: "mono" }}
        value={value}
        error={refusal ?? error}
        onChange={(event) => {
          setRefusal(null);
          onChange(event.currentTarget.value);
        }}
      />
      <div className="choose">
        <FileButton resetRef={reset} onChange={(file) => void take(file ?? undefined)}>
          {(button) => (
            <Button variant="default" size="xs" {...button}>
              Choose a file
            </Button>
          )}
        </FileButton>
      </div>
    </div>
  );
}
