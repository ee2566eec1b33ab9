import { Button, Modal, SegmentedControl, TextInput } from "@mantine/core";
import { useMutation, useQuery } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { useState } from "react";

import { treeQuery } from "../api/queries";
import type { TreeNode } from "../api/types";
import { Archive } from "../quotas/Archive";
import { Delete } from "../quotas/Delete";
import { Move } from "../quotas/Move";
import { useTreeChanged } from "../quotas/useTreeChanged";
import { may } from "../session/access";
import { useSession } from "../session/useSession";
import { Card } from "../ui/Card";
import { DataTable } from "../ui/DataTable";
import { Empty } from "../ui/states";
import { toastDone } from "../ui/toast";
import { ImportCard } from "./ImportCard";
import { RenameDialog } from "./RenameDialog";
import { makeNode } from "./structureQueries";
import { useNode } from "./useNode";

/** The nodes below a node, and its place in the tree: make, rename, move, archive, export and import. */
export function StructureTab() {
  const node = useNode();
  const session = useSession();
  const navigate = useNavigate();
  const tree = useQuery(treeQuery);
  const [opened, setOpened] = useState<"make" | "rename" | null>(null);
  const mayStructure = may(session, "manage_structure", node.path);
  const mayRename = may(session, "manage_structure", node.parent === null ? "" : node.path);
  const children = (tree.data ?? []).filter(({ parent }) => parent === node.path);
  return (
    <div className="rows">
      {node.kind !== "team" && (
        <Card>
          <div className="spread">
            <h2>Below {node.slug}</h2>
            {mayStructure && node.archived_at === null && (
              <Button onClick={() => setOpened("make")}>New department or team</Button>
            )}
          </div>
          {children.length === 0 ? (
            <Empty>No department and no team yet.</Empty>
          ) : (
            <Children nodes={children} all={tree.data ?? []} />
          )}
        </Card>
      )}
      <Card className="stack">
        <h2>{node.name}</h2>
        {mayRename && (
          <section aria-label="Rename">
            <p className="dim">The name that people see. The path {node.path} stays.</p>
            <Button variant="default" onClick={() => setOpened("rename")}>
              Rename…
            </Button>
          </section>
        )}
        <Move path={node.path} />
        <Archive path={node.path} />
        <Delete
          path={node.path}
          onDeleted={() => void navigate({ to: "/quotas", search: { scope: node.parent ?? undefined } })}
        />
        {!mayRename && (
          <p className="dim">
            To rename, move or archive this node, you need the right <em>manage_structure</em>.
          </p>
        )}
      </Card>
      {may(session, "manage_members", node.path) && <ImportCard />}
      {opened === "make" && <MakeDialog parent={node} onClose={() => setOpened(null)} />}
      {opened === "rename" && <RenameDialog node={node} onClose={() => setOpened(null)} />}
    </div>
  );
}

function Children({ nodes, all }: { nodes: readonly TreeNode[]; all: readonly TreeNode[] }) {
  const below = (node: TreeNode, kind: TreeNode["kind"]) =>
    all.filter((each) => each.kind === kind && each.path.startsWith(`${node.path}/`)).length;
  return (
    <DataTable
      label="Nodes below"
      rows={nodes}
      rowKey={({ id }) => id}
      columns={[
        {
          header: "Node",
          isHeading: true,
          className: "breaks",
          sortBy: ({ name }) => name,
          cell: (node) => (
            <>
              <Link to="/tree/$nodeId/structure" params={{ nodeId: node.id }}>
                {node.name}
              </Link>{" "}
              {node.archived_at !== null && <span className="pill">archived</span>}
            </>
          ),
        },
        { header: "Path", only: "wide", className: "breaks", sortBy: ({ path }) => path, cell: ({ path }) => path },
        { header: "Kind", sortBy: ({ kind }) => kind, cell: ({ kind }) => kind },
        {
          header: "Departments",
          isRight: true,
          only: "wide",
          sortBy: (node) => below(node, "department"),
          cell: (node) => below(node, "department"),
        },
        {
          header: "Teams",
          isRight: true,
          sortBy: (node) => below(node, "team"),
          cell: (node) => below(node, "team"),
        },
      ]}
    />
  );
}

function MakeDialog({ parent, onClose }: { parent: TreeNode; onClose: () => void }) {
  const changed = useTreeChanged();
  const [kind, setKind] = useState<"department" | "team">("team");
  const [name, setName] = useState("");
  const [slug, setSlug] = useState<string | null>(null);
  const path = slug ?? slugFromName(name);
  const make = useMutation({
    mutationFn: () => makeNode(kind, parent, path, name),
    onSuccess: (made) => {
      toastDone(`${made.path} is created`);
      changed();
      onClose();
    },
  });
  return (
    <Modal opened onClose={onClose} title={`New node below ${parent.path}`} closeButtonProps={{ "aria-label": "Close" }}>
      <form
        className="stack"
        onSubmit={(event) => {
          event.preventDefault();
          make.mutate();
        }}
      >
        <SegmentedControl
          aria-label="Kind"
          data={[
            { value: "team", label: "Team" },
            { value: "department", label: "Department" },
          ]}
          value={kind}
          onChange={setKind}
        />
        <TextInput
          label="Name"
          value={name}
          onChange={(event) => setName(event.currentTarget.value)}
          data-autofocus
          required
        />
        <TextInput
          label="Last part of its path"
          description="Letters a-z, digits and -. It never changes."
          value={path}
          onChange={(event) => setSlug(event.currentTarget.value)}
          required
        />
        <p className="dim breaks">
          {kind === "team"
            ? "Jobs run in teams. A new team has no quota and no members of its own yet."
            : "A department holds teams and other departments."}
        </p>
        {make.error && (
          <p className="bad-text breaks" role="alert">
            {make.error.message}
          </p>
        )}
        <div className="inline end">
          <Button type="submit" disabled={name.trim() === "" || path === ""} loading={make.isPending}>
            Create {parent.path}/{path}
          </Button>
        </div>
      </form>
    </Modal>
  );
}

/** A path part made from a name: "Rival Lab" is `rival-lab`. */
export function slugFromName(name: string): string {
  const plain = name.normalize("NFKD").replaceAll(/[^\x20-\x7e]/g, "").toLowerCase();
  return plain.replaceAll(/[^a-z0-9]+/g, "-").slice(0, 63).replaceAll(/^-+|-+$/g, "");
}
