import { Button } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";

import type { Member } from "../api/types";
import { CapDialog } from "../budgets/CapDialog";
import { userCapsQuery } from "../budgets/queries";
import { may } from "../session/access";
import { useSession } from "../session/useSession";
import { formatGpus } from "../ui/units";
import { useNode } from "./useNode";

/** The cap of a member in a pool, with a button for those who set caps of the team. */
export function MemberCap({ member, pool, mgpu }: { member: Member; pool: string | undefined; mgpu: number | null }) {
  const node = useNode();
  const session = useSession();
  const [isOpen, setOpen] = useState(false);
  const text = mgpu === null ? <span className="faint">none</span> : formatGpus(mgpu);
  if (node.kind !== "team" || pool === undefined || !may(session, "manage_quota", node.path)) return text;
  return (
    <span className="inline end">
      {text}
      <Button
        size="compact-sm"
        variant="default"
        aria-label={`Set the cap of ${member.user.login}`}
        onClick={() => setOpen(true)}
      >
        Set…
      </Button>
      {isOpen && <OwnCap username={member.user.username} pool={pool} onClose={() => setOpen(false)} />}
    </span>
  );
}

function OwnCap({ username, pool, onClose }: { username: string; pool: string; onClose: () => void }) {
  const node = useNode();
  const caps = useQuery(userCapsQuery);
  if (caps.data === undefined) return null;
  const own = caps.data.find((cap) => cap.team === node.path && cap.user === username && cap.pool === pool);
  return (
    <CapDialog
      cap={own ?? null}
      teams={[node]}
      pools={[{ name: pool }]}
      first={{ user: username, pool }}
      onClose={onClose}
    />
  );
}
