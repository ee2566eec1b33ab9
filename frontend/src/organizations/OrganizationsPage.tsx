import { Button } from "@mantine/core";
import { useInfiniteQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";

import type { OrganizationSummary } from "../api/types";
import { ArchiveDialog } from "../quotas/Archive";
import { may } from "../session/access";
import { useSession } from "../session/useSession";
import { RenameDialog } from "../tree/RenameDialog";
import { DataTable } from "../ui/DataTable";
import { NoPage, Page } from "../ui/Page";
import { PagedCard } from "../ui/PagedCard";
import { Empty } from "../ui/states";
import { Time } from "../ui/Time";
import { DEVICE_WORDS, formatCount, formatGpus } from "../ui/units";
import { NewOrganizationDialog } from "./NewOrganizationDialog";
import { organizationsQuery } from "./queries";

/** All organizations, for platform administrators. */
export function OrganizationsPage() {
  return may(useSession(), "manage_clusters", "") ? (
    <Organizations />
  ) : (
    <NoPage title="Organizations" heading="Only for platform administrators">
      <p>Your own organization is the top of the tree.</p>
      <Link to="/quotas">Quotas</Link>
    </NoPage>
  );
}

function Organizations() {
  const organizations = useInfiniteQuery(organizationsQuery);
  const [isMaking, setMaking] = useState(false);
  const [asked, setAsked] = useState<{ act: "rename" | "archive"; node: OrganizationSummary }>();
  const close = () => setAsked(undefined);
  return (
    <Page
      title="Organizations"
      lead="Each has its own tree, people, prices and policy. GPUs are guaranteed to it by you."
      actions={<Button onClick={() => setMaking(true)}>New organization</Button>}
    >
      <PagedCard
        query={organizations}
        label="organizations"
        lines={6}
        command="tidegate organization list"
        empty={<Empty>No organizations yet.</Empty>}
      >
        {(items) => (
          <DataTable
            label="Organizations"
            rows={items}
            rowKey={({ id }) => id}
            columns={[
              {
                header: "Organization",
                isHeading: true,
                className: "breaks",
                cell: (each) => (
                  <>
                    <Link to="/tree/$nodeId/structure" params={{ nodeId: each.id }}>
                      {each.name}
                    </Link>{" "}
                    {each.archived_at !== null && <span className="pill">archived</span>}
                    <div className="dim">{each.slug}</div>
                  </>
                ),
              },
              { header: "Time zone", only: "wide", className: "breaks", cell: (each) => each.time_zone },
              { header: "Currency", only: "wide", cell: (each) => each.currency || "–" },
              { header: "People", isRight: true, only: "wide", cell: (each) => formatCount(each.people) },
              { header: "Teams", isRight: true, only: "wide", cell: (each) => formatCount(each.teams) },
              {
                header: "Guaranteed",
                className: "breaks",
                cell: (each) =>
                  each.guarantees.length === 0
                    ? "–"
                    : each.guarantees.map(({ pool, device, guaranteed_mgpu: mgpu }) => (
                        <div key={pool}>
                          {formatGpus(mgpu)} {DEVICE_WORDS[device]} <span className="dim">{pool}</span>
                        </div>
                      )),
              },
              {
                header: "Jobs",
                isRight: true,
                cell: (each) => (
                  <>
                    {formatCount(each.jobs_running)} <span className="dim">running</span>
                  </>
                ),
              },
              { header: "Since", only: "wide", cell: (each) => <Time at={each.created_at} show="relative" /> },
              {
                header: <span className="visually-hidden">Actions</span>,
                isRight: true,
                only: "wide",
                cell: (each) => (
                  <span className="inline end">
                    <Button
                      variant="default"
                      size="xs"
                      aria-label={`Rename ${each.slug}…`}
                      onClick={() => setAsked({ act: "rename", node: each })}
                    >
                      Rename…
                    </Button>
                    {each.archived_at === null && (
                      <Button
                        variant="default"
                        size="xs"
                        c="var(--bad)"
                        aria-label={`Archive ${each.slug}…`}
                        onClick={() => setAsked({ act: "archive", node: each })}
                      >
                        Archive…
                      </Button>
                    )}
                  </span>
                ),
              },
            ]}
          />
        )}
      </PagedCard>
      {isMaking && <NewOrganizationDialog onClose={() => setMaking(false)} />}
      {asked?.act === "rename" && <RenameDialog node={asked.node} onClose={close} />}
      {asked?.act === "archive" && <ArchiveDialog node={asked.node} onClose={close} />}
    </Page>
  );
}
