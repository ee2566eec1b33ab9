import { Button, Checkbox, FileInput, SegmentedControl, Textarea } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import type { TreeImportRequest } from "../api/types";
import { useTreeChanged } from "../quotas/useTreeChanged";
import { Card } from "../ui/Card";
import { CliLine } from "../ui/CliLine";
import { commandLine, shellQuote } from "../ui/command";
import { toastDone, toastError } from "../ui/toast";
import { formatCount } from "../ui/units";
import { applyImport, previewImport } from "./structureQueries";
import { TreeFilePreview } from "./TreeFilePreview";
import { useNode } from "./useNode";

const AT_FIRST: TreeImportRequest = { format: "csv", text: "", archive_missing: false, revoke_missing: false };

/** The tree at and below the node as a file: to download, and to import after a preview. */
export function ImportCard() {
  const node = useNode();
  const queryClient = useQueryClient();
  const changed = useTreeChanged();
  const [asked, setAsked] = useState(AT_FIRST);
  const [fileName, setFileName] = useState("tree.csv");
  const preview = useMutation({ mutationFn: () => previewImport(node.id, asked), onError: toastError });
  const apply = useMutation({
    mutationFn: (digest: string) => applyImport(node.id, asked, digest),
    onSuccess: (done) => {
      toastDone(`${countedChanges(done.changes.length)} applied`);
      changed();
      void queryClient.invalidateQueries({ queryKey: ["users"] });
      preview.reset();
    },
    onError: toastError,
  });
  const ask = (change: Partial<TreeImportRequest>) => {
    // A preview is of one file with one set of options.
    preview.reset();
    setAsked((before) => ({ ...before, ...change }));
  };
  const open = async (file: File | null) => {
    if (file === null) return;
    setFileName(file.name);
    ask({ text: await file.text(), ...formatOf(file.name) });
  };
  const found = preview.data;
  return (
    <Card label="Export and import" className="stack">
      <div className="spread">
        <h2>Export and import</h2>
        <div className="inline end">
          <Button component="a" variant="default" href={exportAddress(node.id, "csv")} download>
            CSV
          </Button>
          <Button component="a" variant="default" href={exportAddress(node.id, "yaml")} download>
            YAML
          </Button>
        </div>
      </div>
      <p className="dim">
        One file has the nodes below {node.slug}, their quotas, and their members with roles. Change it, and import it:
        nothing is applied before you saw the preview.
      </p>
      <FileInput label="File" placeholder="Choose a .csv or .yaml file" accept=".csv,.yaml,.yml" onChange={(file) => void open(file)} />
      <Textarea
        label="Or its text"
        classNames={{ input: "mono" }}
        autosize
        minRows={4}
        maxRows={14}
        value={asked.text}
        placeholder={"kind,path,name,id,user,role,expires_at,pool,guaranteed,borrow_limit,lend_limit,weight"}
        onChange={(event) => ask({ text: event.currentTarget.value })}
      />
      <div className="inline">
        <SegmentedControl
          aria-label="Format"
          size="xs"
          data={[
            { value: "csv", label: "CSV" },
            { value: "yaml", label: "YAML" },
          ]}
          value={asked.format}
          onChange={(format) => ask({ format })}
        />
        <Checkbox
          label="Archive nodes that the file lacks"
          checked={asked.archive_missing ?? false}
          onChange={(event) => ask({ archive_missing: event.currentTarget.checked })}
        />
        <Checkbox
          label="Revoke roles and invitations that the file lacks"
          checked={asked.revoke_missing ?? false}
          onChange={(event) => ask({ revoke_missing: event.currentTarget.checked })}
        />
      </div>
      <div className="inline">
        <Button
          variant="default"
          disabled={asked.text.trim() === ""}
          loading={preview.isPending}
          onClick={() => preview.mutate()}
        >
          Preview
        </Button>
        {found?.digest && (
          <Button loading={apply.isPending} onClick={() => apply.mutate(found.digest ?? "")}>
            {found.second_person === null ? "Apply" : "Propose"} {countedChanges(found.changes.length)}
          </Button>
        )}
      </div>
      {found && found.second_person !== null && (
        <p role="status">{found.second_person}, so the whole file waits for a second person.</p>
      )}
      {found && <TreeFilePreview found={found} above={node.path.slice(0, -node.slug.length)} />}
      <CliLine command={commandLine("tidegate tree export", { node: node.path })} />
      <CliLine
        command={[
          commandLine(`tidegate tree import ${shellQuote(fileName)}`, { node: node.path }),
          asked.archive_missing ? " --archive-missing" : "",
          asked.revoke_missing ? " --revoke-missing" : "",
        ].join("")}
      />
    </Card>
  );
}

/** Return the format that the ending of a file's name says, if it says one. */
export function formatOf(name: string): Partial<TreeImportRequest> {
  if (/\.csv$/i.test(name)) return { format: "csv" };
  return /\.ya?ml$/i.test(name) ? { format: "yaml" } : {};
}

const exportAddress = (nodeId: string, format: string) => `/api/v1/tree/${nodeId}/export?format=${format}`;

const countedChanges = (count: number) => (count === 1 ? "1 change" : `${formatCount(count)} changes`);
