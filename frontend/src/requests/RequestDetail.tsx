import { Button, TextInput } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";

import { client, unwrap } from "../api/client";
import type { ChangeRequestDetail } from "../api/types";
import { newIdempotencyKey } from "../submit/draft";
import { Card } from "../ui/Card";
import { CliLine } from "../ui/CliLine";
import { Confirm } from "../ui/Confirm";
import { ErrorCard, Lines, QueryView } from "../ui/states";
import { Time } from "../ui/Time";
import { toastDone, toastError } from "../ui/toast";
import { formatGpus } from "../ui/units";
import { DecideCard } from "./DecideCard";
import { requestQuery } from "./queries";
import { RequestPill } from "./RequestPill";
import { KIND_WORDS } from "./words";
import { WriteCard } from "./WriteCard";

const TEXT_MAX = 500;

/** A request: the change, its reason, its counter-offers, the decision and the comments. */
export function RequestDetail({ id }: { id: string }) {
  const request = useQuery(requestQuery(id));
  if (request.error && request.data === undefined) {
    return <ErrorCard error={request.error} onRetry={() => void request.refetch()} />;
  }
  return (
    <QueryView query={request} loading={<Card><Lines count={6} label="Loading the request" /></Card>}>
      {({ data, etag }) => (
        <div className="rows request-detail">
          <Summary request={data} />
          {data.offers.length > 0 && <Offers request={data} />}
          {data.write !== null && <WriteCard request={data} write={data.write} etag={etag} />}
          {data.can_decide && <DecideCard request={data} etag={etag} />}
          <Comments request={data} />
        </div>
      )}
    </QueryView>
  );
}

function Summary({ request }: { request: ChangeRequestDetail }) {
  const queryClient = useQueryClient();
  const [isAsking, setAsking] = useState(false);
  const withdraw = useMutation({
    mutationFn: () =>
      unwrap(client.POST("/api/v1/requests/{request_id}/withdraw", { params: { path: { request_id: request.id } } })),
    onSuccess: () => {
      toastDone("The request is withdrawn.");
      setAsking(false);
    },
    onError: toastError,
    onSettled: () => queryClient.invalidateQueries({ queryKey: ["requests"] }),
  });
  const isOpen = request.status === "pending" || request.status === "countered";
  const now = request.supply?.guaranteed_mgpu;
  return (
    <Card label="Request" tone="note">
      <div className="spread">
        <h2>
          {KIND_WORDS[request.kind]} <RequestPill status={request.status} />
        </h2>
        {isOpen && (
          <span className="small faint">
            expires <Time at={request.expires_at} />
          </span>
        )}
      </div>
      <p className="sentence">
        {request.title}
        {request.kind === "guarantee" && now !== undefined && request.amount !== null && (
          <span className="dim">
            {" "}
            · from {formatGpus(now)} to {formatGpus(now + request.amount)}
          </span>
        )}
      </p>
      <blockquote className="dim">
        “{request.reason}” — {request.asked_by}, <Time at={request.asked_at} />
      </blockquote>
      {request.decided_at !== null && (
        <p>
          {request.status} {request.decided_by !== null && `by ${request.decided_by} `}
          {request.is_emergency && "without a second person "}
          <Time at={request.decided_at} />
          {request.note !== "" && `: “${request.note}”`}
        </p>
      )}
      {request.planned !== null && (
        <p>
          <Link to="/quota-changes/$plannedId" params={{ plannedId: request.planned }}>
            The planned change
          </Link>{" "}
          is {request.planned_status}.
        </p>
      )}
      {request.is_yours && isOpen && (
        <Button variant="default" loading={withdraw.isPending} onClick={() => setAsking(true)}>
          Withdraw…
        </Button>
      )}
      <p className="small">
        <CliLine command={`tidegate requests show ${request.id.slice(-8)}`} />
      </p>
      <Confirm
        title="Withdraw the request?"
        confirmLabel="Withdraw"
        isOpen={isAsking}
        isBusy={withdraw.isPending}
        onConfirm={() => withdraw.mutate()}
        onClose={() => setAsking(false)}
      >
        <p>{request.title}</p>
      </Confirm>
    </Card>
  );
}

function Offers({ request }: { request: ChangeRequestDetail }) {
  const queryClient = useQueryClient();
  const answer = useMutation({
    mutationFn: ({ number, act }: { number: number; act: "accept" | "decline" }) => {
      const params = { path: { request_id: request.id, number } };
      return act === "accept"
        ? unwrap(client.POST("/api/v1/requests/{request_id}/offers/{number}/accept", { params }))
        : unwrap(client.POST("/api/v1/requests/{request_id}/offers/{number}/decline", { params }));
    },
    onSuccess: (_, { act }) =>
      toastDone(act === "accept" ? "Accepted. The change is made." : "Declined. The request waits again."),
    onError: toastError,
    onSettled: () => queryClient.invalidateQueries({ queryKey: ["requests"] }),
  });
  return (
    <Card label="Counter-offers">
      <h2>Counter-offers</h2>
      <ul>
        {request.offers.map((offer) => (
          <li key={offer.number}>
            <b>{offer.title}</b> by {offer.made_by}, <Time at={offer.made_at} />
            {offer.sources.length > 0 && (
              <span className="dim">
                {" "}
                · from {offer.sources.map(({ node, amount_mgpu }) => `${node} ${formatGpus(amount_mgpu)}`).join(", ")}
              </span>
            )}
            {offer.note !== "" && <div className="dim">“{offer.note}”</div>}
            {offer.is_open && request.is_yours && (
              <div className="inline">
                <Button
                  size="compact-sm"
                  loading={answer.isPending}
                  onClick={() => answer.mutate({ number: offer.number, act: "accept" })}
                >
                  Accept
                </Button>
                <Button
                  size="compact-sm"
                  variant="default"
                  disabled={answer.isPending}
                  onClick={() => answer.mutate({ number: offer.number, act: "decline" })}
                >
                  Decline
                </Button>
              </div>
            )}
          </li>
        ))}
      </ul>
    </Card>
  );
}

function Comments({ request }: { request: ChangeRequestDetail }) {
  const queryClient = useQueryClient();
  const [text, setText] = useState("");
  const [key, setKey] = useState(newIdempotencyKey);
  const send = useMutation({
    mutationFn: () =>
      unwrap(
        client.POST("/api/v1/requests/{request_id}/comments", {
          params: { path: { request_id: request.id }, header: { "Idempotency-Key": key } },
          body: { text: text.trim() },
        }),
      ),
    onSuccess: () => {
      setText("");
      setKey(newIdempotencyKey());
    },
    onError: toastError,
    onSettled: () => queryClient.invalidateQueries({ queryKey: ["requests", "one", request.id] }),
  });
  return (
    <Card label="Comments">
      <h2>Comments</h2>
      {request.comments.length > 0 && (
        <dl className="request-comments">
          {request.comments.map((comment) => (
            <div key={comment.id}>
              <dt>
                {comment.author} <span className="small faint"><Time at={comment.at} /></span>
              </dt>
              <dd>{comment.text}</dd>
            </div>
          ))}
        </dl>
      )}
      <form
        className="inline"
        onSubmit={(event) => {
          event.preventDefault();
          if (text.trim() !== "") send.mutate();
        }}
      >
        <TextInput
          aria-label="Comment"
          placeholder="Comment, seen by all who may read the request"
          maxLength={TEXT_MAX}
          value={text}
          onChange={(event) => setText(event.currentTarget.value)}
        />
        <Button type="submit" variant="default" loading={send.isPending} disabled={text.trim() === ""}>
          Send
        </Button>
      </form>
    </Card>
  );
}
