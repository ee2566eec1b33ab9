import { Button, Modal } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { client, unwrap } from "../api/client";
import { secondFactorsQuery } from "../api/queries";
import type { SecondFactors as Factors } from "../api/types";
import { AuthenticatorSetup } from "../session/AuthenticatorSetup";
import { ProofForm } from "../session/ProofForm";
import { RecoveryCodes } from "../session/RecoveryCodes";
import { canUseKeys } from "../session/securityKeys";
import { Card } from "../ui/Card";
import { CliLine } from "../ui/CliLine";
import { DataTable } from "../ui/DataTable";
import { Lines, QueryView } from "../ui/states";
import { Time } from "../ui/Time";
import { toastDone } from "../ui/toast";
import { SecurityKeySetup } from "./SecurityKeySetup";

/** An act on the factors: `remove` names the factor. */
type Act = { kind: "app" | "key" | "renew" } | { kind: "remove"; id: string };

/** My second factor: added, removed, and its recovery codes. */
export function SecondFactors() {
  const queryClient = useQueryClient();
  const factors = useQuery(secondFactorsQuery());
  const [act, setAct] = useState<Act | null>(null);
  const [codes, setCodes] = useState<readonly string[]>([]);
  const close = () => {
    setAct(null);
    setCodes([]);
    void queryClient.invalidateQueries({ queryKey: secondFactorsQuery().queryKey });
  };
  const added = (made: readonly string[]) => {
    toastDone("The second factor is added");
    if (made.length > 0) setCodes(made);
    else close();
  };
  return (
    <Card style={{ marginTop: 14 }}>
      <h2>Second factor</h2>
      <QueryView query={factors} loading={<Lines count={3} label="Loading second factors" />}>
        {(found) => (
          <>
            <State factors={found} onAct={setAct} />
            <Modal
              opened={act !== null}
              onClose={close}
              title={codes.length > 0 ? "Recovery codes" : act === null ? "" : TITLES[act.kind]}
              closeButtonProps={{ "aria-label": "Close" }}
            >
              {codes.length > 0 ? (
                <RecoveryCodes login={found.user} codes={codes} onStored={close} />
              ) : act?.kind === "app" ? (
                <AuthenticatorSetup onAdded={added} />
              ) : act?.kind === "key" ? (
                <SecurityKeySetup onAdded={added} />
              ) : act?.kind === "remove" ? (
                <Removal id={act.id} isLast={count(found) === 1} onRemoved={close} />
              ) : (
                act?.kind === "renew" && <Renewal onRenewed={setCodes} />
              )}
            </Modal>
          </>
        )}
      </QueryView>
      <p className="sub" style={{ marginTop: 14 }}>
        <CliLine command="tidegate second-factor show" />
      </p>
    </Card>
  );
}

const TITLES: Record<Act["kind"], string> = {
  app: "Add an authenticator app",
  key: "Add a security key",
  remove: "Remove a second factor",
  renew: "New recovery codes",
};

const count = ({ authenticator_app, security_keys }: Factors) => security_keys.length + (authenticator_app ? 1 : 0);

function State({ factors, onAct }: { factors: Factors; onAct: (act: Act) => void }) {
  const { authenticator_app: app, security_keys: keys } = factors;
  const isLastKept = factors.is_required && count(factors) === 1;
  const rows = [...(app ? [{ ...app, name: "Authenticator app" }] : []), ...keys];
  return (
    <>
      {rows.length > 0 ? (
        <>
          <DataTable
            label="Second factors"
            rows={rows}
            rowKey={(row) => row.id}
            columns={[
              { header: "Factor", isHeading: true, className: "breaks", cell: (row) => row.name },
              { header: "Added", only: "wide", cell: (row) => <Time at={row.created_at} /> },
              { header: "Last used", cell: (row) => (row.last_used_at ? <Time at={row.last_used_at} /> : "never") },
              {
                header: <span className="visually-hidden">Actions</span>,
                isRight: true,
                cell: (row) => (
                  <Button
                    variant="default"
                    size="xs"
                    c="var(--bad)"
                    aria-label={`Remove ${row.name}`}
                    disabled={isLastKept}
                    onClick={() => onAct({ kind: "remove", id: row.id })}
                  >
                    Remove
                  </Button>
                ),
              },
            ]}
          />
          <p className={factors.recovery_codes_left <= 2 ? "bad-text" : "dim"}>
            {factors.recovery_codes_left} recovery codes left.
          </p>
          {isLastKept && (
            <p className="sub">Your organization requires a second factor, so the last one stays.</p>
          )}
        </>
      ) : (
        <p className="dim">
          {factors.can_enrol
            ? "With a second factor, a stolen password is not enough to sign in. Your other sessions end when you add it."
            : "You sign in with your organization's identity provider. It asks for a second factor, so nothing is added here."}
        </p>
      )}
      <div className="inline">
        {factors.can_enrol && app === null && (
          <Button variant={rows.length > 0 ? "default" : undefined} onClick={() => onAct({ kind: "app" })}>
            Add an authenticator app
          </Button>
        )}
        {factors.can_enrol && canUseKeys() && (
          <Button variant="default" onClick={() => onAct({ kind: "key" })}>
            Add a security key
          </Button>
        )}
        {rows.length > 0 && (
          <Button variant="default" onClick={() => onAct({ kind: "renew" })}>
            New recovery codes
          </Button>
        )}
      </div>
    </>
  );
}

function Removal({ id, isLast, onRemoved }: { id: string; isLast: boolean; onRemoved: () => void }) {
  const remove = useMutation({
    mutationFn: (proof: string) =>
      unwrap(
        client.POST("/api/v1/second-factors/{factor_id}/remove", { params: { path: { factor_id: id } }, body: { proof } }),
      ),
    onSuccess: () => {
      toastDone("The second factor is removed");
      onRemoved();
    },
  });
  return (
    <ProofForm
      label="Remove"
      isBusy={remove.isPending}
      error={remove.error}
      onProof={(proof) => remove.mutate(proof)}
      isDangerous
    >
      {isLast
        ? "You then sign in with the password alone. The recovery codes stop working."
        : "You then sign in with another of your second factors."}
    </ProofForm>
  );
}

function Renewal({ onRenewed }: { onRenewed: (codes: readonly string[]) => void }) {
  const renew = useMutation({
    mutationFn: (proof: string) => unwrap(client.POST("/api/v1/second-factors/recovery-codes", { body: { proof } })),
    onSuccess: ({ recovery_codes }) => onRenewed(recovery_codes),
  });
  return (
    <ProofForm
      label="Make new codes"
      isBusy={renew.isPending}
      error={renew.error}
      onProof={(proof) => renew.mutate(proof)}
    >
      Your present recovery codes stop working.
    </ProofForm>
  );
}
