import { Button } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { useEffect, useRef, useState } from "react";

import { ApiError, client, unwrapTagged } from "../api/client";
import type { PlannedChange, QuotaPreview } from "../api/types";
import { useSession } from "../session/useSession";
import { Card } from "../ui/Card";
import { CliLine } from "../ui/CliLine";
import { Confirm } from "../ui/Confirm";
import { Fact, Facts } from "../ui/Facts";
import { NoPage, Page, PageLoading } from "../ui/Page";
import { QueryView } from "../ui/states";
import { Time } from "../ui/Time";
import { toastDone, toastError } from "../ui/toast";
import { formatDuration } from "../ui/units";
import { PreviewCard } from "./PreviewCard";
import { StatusPill } from "./PlannedChangesPage";
import { plannedChangeQuery } from "./queries";
import { onlyLowered, whoCanApply } from "./rights";
import { EditTable, StaleEdits } from "./EditTable";
import { previewSentence, previewSums } from "./words";
import "./planned.css";

const HORIZON_S_DEFAULT = 86_400;

/** A preview with the ETag of the state that it looked at. */
export interface Looked {
  preview: QuotaPreview;
  etag: string;
}

export function PlannedChangePage() {
  const { plannedId } = useParams({ from: "/shell/quota-changes/$plannedId" });
  const change = useQuery(plannedChangeQuery(plannedId));
  if (change.error instanceof ApiError && change.error.status === 404) {
    return (
      <NoPage title="Planned change" heading="No such planned change">
        <p>The change does not exist, or it is about nodes that you cannot see.</p>
        <Link to="/quota-changes">All planned changes</Link>
      </NoPage>
    );
  }
  return (
    <QueryView
      query={change}
      loading={<PageLoading title="Planned change" label="Loading the planned change" />}
    >
      {({ data, etag }) => <ChangeView key={data.id} change={data} etag={etag} />}
    </QueryView>
  );
}

function ChangeView({ change, etag }: { change: PlannedChange; etag: string }) {
  const { preview: wanted } = useSearch({ from: "/shell/quota-changes/$plannedId" });
  const navigate = useNavigate({ from: "/quota-changes/$plannedId" });
  const queryClient = useQueryClient();
  // What is applied is what was seen: the state at the first look, or at the latest preview.
  const [seen, setSeen] = useState(etag);
  const [looked, setLooked] = useState<Looked | null>(null);
  const [horizonS, setHorizonS] = useState(HORIZON_S_DEFAULT);
  const path = { planned_id: change.id };
  const { queryKey } = plannedChangeQuery(change.id);

  const preview = useMutation({
    mutationFn: (horizon: number) =>
      unwrapTagged(
        client.POST("/api/v1/quota-changes/{planned_id}/preview", {
          params: { path },
          body: { horizon_s: horizon },
        }),
      ),
    onSuccess: async ({ data, etag: state }) => {
      // Read anew first: what is shown beside the preview is then not older than it.
      await queryClient.invalidateQueries({ queryKey });
      setLooked({ preview: data, etag: state });
      setSeen(state);
      if (apply.isError) apply.reset();
    },
  });
  const done = (next: { data: PlannedChange; etag: string }, word: string) => {
    queryClient.setQueryData(queryKey, next);
    setSeen(next.etag);
    void queryClient.invalidateQueries({ queryKey: ["quotas"] });
    toastDone(word);
  };
  const apply = useMutation({
    mutationFn: (ifMatch: string) =>
      unwrapTagged(
        client.POST("/api/v1/quota-changes/{planned_id}/apply", {
          params: { path, header: { "If-Match": ifMatch } },
        }),
      ),
    onSuccess: (next) =>
      done(next, next.data.status === "scheduled" ? "The change is scheduled." : "The change is applied."),
    onError: () => void queryClient.invalidateQueries({ queryKey }),
  });
  const cancel = useMutation({
    mutationFn: () =>
      unwrapTagged(client.POST("/api/v1/quota-changes/{planned_id}/cancel", { params: { path } })),
    onSuccess: (next) => done(next, next.data.status === "kept" ? "It is kept for good." : "The change is cancelled."),
    onError: (error) => {
      toastError(error);
      void queryClient.invalidateQueries({ queryKey });
    },
  });

  const isOpen = change.status === "draft" || change.status === "scheduled";
  const mayPreview = isOpen && change.can_preview;
  const isFirst = useRef(true);
  useEffect(() => {
    if (wanted !== "now" || !mayPreview || !isFirst.current) return;
    isFirst.current = false;
    preview.mutate(HORIZON_S_DEFAULT);
    void navigate({ search: (before) => ({ ...before, preview: undefined }), replace: true });
  }, [wanted, mayPreview, preview, navigate]);

  return (
    <Page
      title={change.reason}
      heading={
        <>
          {change.reason} <StatusPill change={change} />
        </>
      }
      lead={
        <>
          {change.node} · drafted <Time at={change.created_at} /> by {change.created_by}
          {" · "}
          <Link to="/quota-changes">all planned changes</Link>
        </>
      }
    >
      <div className="two">
        <div className="rows">
          {apply.error && (
            <Refusal
              error={apply.error}
              change={change}
              isBusy={preview.isPending || apply.isPending}
              mayPreview={mayPreview}
              onPreview={() => preview.mutate(horizonS)}
              onAccept={() => {
                setSeen(etag);
                setLooked(null);
                apply.reset();
              }}
            />
          )}
          {!apply.error && change.status === "draft" && seen !== etag && (
            <Card tone="warn" role="status">
              ▲ This change, or a quota beside those that it changes, is not as it was when you looked.{" "}
              {mayPreview ? "Preview it again before you apply it." : "Compare again."}{" "}
              {!mayPreview && (
                <button type="button" className="plain link" onClick={() => setSeen(etag)}>
                  I have compared
                </button>
              )}
            </Card>
          )}
          <Card label="What it sets">
            <h2>What it sets</h2>
            <EditTable change={change} />
          </Card>
          {mayPreview && (
            <PreviewCard
              looked={looked}
              isOld={looked !== null && looked.etag !== etag}
              isBusy={preview.isPending}
              error={preview.error}
              horizonS={horizonS}
              onHorizon={setHorizonS}
              onPreview={() => preview.mutate(horizonS)}
            />
          )}
        </div>
        <div className="rows">
          <Card label="Where it stands">
            <h2>Where it stands</h2>
            <p className="sentence">
              <Standing change={change} />
            </p>
            {change.note && <p className="dim">{change.note}</p>}
            <ChangeFacts change={change} />
          </Card>
          <Actions
            change={change}
            looked={looked}
            isStale={seen !== etag}
            isApplying={apply.isPending}
            isCancelling={cancel.isPending}
            onApply={() => apply.mutate(seen)}
            onCancel={() => cancel.mutate()}
          />
          <CliLine
            command={`tidegate quota-changes ${mayPreview ? "preview" : "show"} ${change.id}`}
          />
        </div>
      </div>
    </Page>
  );
}

/** Why it could not be applied. Nothing was written, and the draft is as it was. */
function Refusal({
  error,
  change,
  isBusy,
  mayPreview,
  onPreview,
  onAccept,
}: {
  error: Error;
  change: PlannedChange;
  isBusy: boolean;
  mayPreview: boolean;
  onPreview: () => void;
  onAccept: () => void;
}) {
  const status = error instanceof ApiError ? error.status : 0;
  const isStale = status === 412;
  return (
    <Card tone={isStale ? "warn" : "bad"} className="stack" role="alert">
      <h2>{isStale ? "Something changed meanwhile" : "It was not applied"}</h2>
      <p>
        {isStale
          ? "Nothing was written, and your draft is kept. Since you looked, this change or a quota of the organization in these pools became another one."
          : error.message}
      </p>
      {isStale && <StaleEdits change={change} />}
      {change.status === "draft" && (
        <div className="inline">
          {mayPreview && (
            <Button variant="default" loading={isBusy} onClick={onPreview}>
              Preview it again
            </Button>
          )}
          {isStale && (
            <Button variant="default" disabled={isBusy} onClick={onAccept}>
              I have compared: go on without
            </Button>
          )}
          {change.can_manage && (
            <Link to="/quota-changes/new" search={{ from: change.id }} className="button-like">
              Change the draft
            </Link>
          )}
        </div>
      )}
    </Card>
  );
}

/** What has become of it and what comes next, in a sentence or two. */
function Standing({ change }: { change: PlannedChange }) {
  const by = change.decided_by ?? "a former user";
  switch (change.status) {
    case "draft":
      return (
        <>
          Nothing has changed yet.{" "}
          {change.apply_at === null ? (
            "Waiting for approval by someone who may change all of these quotas."
          ) : (
            <>
              It is to be applied <Time at={change.apply_at} show="both" />, once someone who may change all of these quotas
              decides so.
            </>
          )}{" "}
          Undecided, it expires <Time at={change.expires_at} />.
        </>
      );
    case "scheduled":
      return (
        <>
          It is applied {change.apply_at && <Time at={change.apply_at} show="both" />}, on the rights that {by} has then, unless
          one of its quotas is changed before.
        </>
      );
    case "applied":
      return (
        <>
          Applied {change.applied_at && <Time at={change.applied_at} />} by {by}.{" "}
          {change.revert_at !== null && (
            <>
              It is reverted <Time at={change.revert_at} show="both" />, unless one of its quotas is changed before.
            </>
          )}
        </>
      );
    case "reverted":
      return <>Applied by {by} and reverted as planned{at(change.ended_at)}.</>;
    case "kept":
      return <>Applied by {by}, and not reverted{at(change.ended_at)}.</>;
    case "cancelled":
      return <>Cancelled{at(change.ended_at)}. It has changed nothing.</>;
    case "expired":
      return <>No decision in time. Nothing was changed.</>;
    case "failed":
      return <>It could not be applied at its time. It has changed nothing.</>;
  }
}

function at(moment: string | null) {
  return (
    moment && (
      <>
        {" "}
        <Time at={moment} />
      </>
    )
  );
}

function ChangeFacts({ change }: { change: PlannedChange }) {
  const rows: [string, React.ReactNode][] = [
    ["Drafted by", change.created_by],
    ["Decided by", change.decided_by],
    ["To be applied", change.apply_at && <Time at={change.apply_at} show="exact" />],
    ["Reverted after", change.revert_after_s === null ? "never" : formatDuration(change.revert_after_s)],
    ["Applied", change.applied_at && <Time at={change.applied_at} show="exact" />],
    ["Ended", change.ended_at && <Time at={change.ended_at} show="exact" />],
  ];
  return (
    <Facts>
        {rows
          .filter(([, value]) => value !== null)
          .map(([name, value]) => (
            <Fact key={name} name={name}>
              {value}
            </Fact>
          ))}
      </Facts>
  );
}

/** What I may do with it now; each is asked about before it is done. */
function Actions({
  change,
  looked,
  isStale,
  isApplying,
  isCancelling,
  onApply,
  onCancel,
}: {
  change: PlannedChange;
  looked: Looked | null;
  /** Something changed since it was looked at: compare first. */
  isStale: boolean;
  isApplying: boolean;
  isCancelling: boolean;
  onApply: () => void;
  onCancel: () => void;
}) {
  const [asked, setAsked] = useState<"apply" | "cancel" | null>(null);
  const session = useSession();
  const lowered = onlyLowered(session, change);
  const isTimed = change.apply_at !== null;
  const isRefused = looked !== null && looked.preview.refusal !== "";
  const keeps = change.status === "applied" && change.revert_at !== null;
  const mayCancel = change.can_manage && (change.status === "draft" || change.status === "scheduled" || keeps);
  const cancelWord = keeps ? "Keep it for good" : change.status === "draft" ? "Cancel the draft" : "Cancel it";
  if (!change.can_apply && !mayCancel) return null;
  return (
    <div className="inline">
      {change.can_apply && (
        <Button loading={isApplying} disabled={isStale || isRefused} onClick={() => setAsked("apply")}>
          {isTimed ? "Schedule it" : "Apply it now"}
        </Button>
      )}
      {change.status === "draft" && change.can_manage && (
        <Link to="/quota-changes/new" search={{ from: change.id }} className="button-like">
          Change the draft
        </Link>
      )}
      {mayCancel && (
        <Button variant="default" c={keeps ? undefined : "var(--bad)"} onClick={() => setAsked("cancel")}>
          {cancelWord}
        </Button>
      )}
      {change.can_apply && isRefused && (
        <p className="small dim">This draft cannot be applied. The preview says why; change the draft.</p>
      )}
      {change.can_apply && lowered !== null && (
        <p className="small">
          You cannot raise the borrow limit of {lowered.nodes.join(", ")} again yourself. Only {lowered.who} can.
        </p>
      )}
      {change.status === "draft" && !change.can_apply && (
        <p className="small dim">
          You may not set all of this yourself. Ask {whoCanApply(session, change)} to look at this page and apply it.
        </p>
      )}
      <Confirm
        isOpen={asked === "apply"}
        title={isTimed ? "Schedule this change?" : "Apply this change now?"}
        isBusy={isApplying}
        confirmLabel={isTimed ? "Schedule it" : "Apply it"}
        onConfirm={() => {
          setAsked(null);
          onApply();
        }}
        onClose={() => setAsked(null)}
      >
        {looked === null ? (
          <p>No preview is open here. Preview the change to see which jobs it would move.</p>
        ) : (
          <p>{previewSentence(previewSums(looked.preview))}</p>
        )}
        <p className="dim">
          {isTimed ? "All of it is set at its time, or nothing." : "All of it is set as one, and the next decision goes by it."}
        </p>
      </Confirm>
      <Confirm
        isOpen={asked === "cancel"}
        title={`${cancelWord}?`}
        isBusy={isCancelling}
        isDangerous={!keeps}
        confirmLabel={cancelWord}
        onConfirm={() => {
          setAsked(null);
          onCancel();
        }}
        onClose={() => setAsked(null)}
      >
        {keeps
          ? "The quotas stay as they are now and are not reverted."
          : "The change has not been applied, and cannot be applied afterwards."}
      </Confirm>
    </div>
  );
}
