import { Button, Menu } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { client, unwrap } from "../api/client";
import type { CreditBank, TreeNode } from "../api/types";
import { may } from "../session/access";
import { useSession } from "../session/useSession";
import { Card } from "../ui/Card";
import { Confirm } from "../ui/Confirm";
import { toastDone, toastError } from "../ui/toast";
import { creditBankQuery } from "./queries";

/** In place of the order of teams while the bank is off: what is missing, and who can switch it on. */
export function BankIsOff({ organization, hasBalances }: { organization: TreeNode | undefined; hasBalances: boolean }) {
  const mayChange = useMayChange(organization);
  const [isAsking, setAsking] = useState(false);
  return (
    <Card label="Credit bank" tone="warn">
      <h2>The credit bank is off</h2>
      <p className="sentence">
        Lending earns no credits and borrowing pays none, so fair-share orders spare GPUs.
        {hasBalances && " The balances below stay as they are."}
      </p>
      {organization && mayChange ? (
        <>
          <Button onClick={() => setAsking(true)}>Switch on…</Button>
          <SwitchDialog organization={organization} turnsOn isOpen={isAsking} onClose={() => setAsking(false)} />
        </>
      ) : (
        <p className="dim">An administrator with the right to manage the organization's quotas can switch it on.</p>
      )}
    </Card>
  );
}

/** The switch of a bank that is on, for those who may use it. */
export function BankMenu({ organization }: { organization: TreeNode }) {
  const [isAsking, setAsking] = useState(false);
  if (!useMayChange(organization)) return null;
  return (
    <>
      <Menu position="bottom-end">
        <Menu.Target>
          <Button variant="default">Credit bank</Button>
        </Menu.Target>
        <Menu.Dropdown>
          <Menu.Item color="red" onClick={() => setAsking(true)}>
            Switch off…
          </Menu.Item>
        </Menu.Dropdown>
      </Menu>
      <SwitchDialog organization={organization} turnsOn={false} isOpen={isAsking} onClose={() => setAsking(false)} />
    </>
  );
}

function useMayChange(organization: TreeNode | undefined): boolean {
  const session = useSession();
  return organization !== undefined && may(session, "manage_quota", organization.path);
}

/** Asks, and changes the version of the bank that it has read. */
function SwitchDialog({
  organization,
  turnsOn,
  isOpen,
  onClose,
}: {
  organization: TreeNode;
  turnsOn: boolean;
  isOpen: boolean;
  onClose: () => void;
}) {
  const queryClient = useQueryClient();
  const bank = useQuery(creditBankQuery(organization.id));
  const change = useMutation({
    mutationFn: ({ version }: Pick<CreditBank, "version">) =>
      unwrap(
        client.PATCH("/api/v1/organizations/{organization_id}/credit-bank", {
          params: { path: { organization_id: organization.id }, header: { "If-Match": `"v${version}"` } },
          body: { is_on: turnsOn },
        }),
      ),
    onSuccess: () => toastDone(`The credit bank of ${organization.name} is ${turnsOn ? "on" : "off"}.`),
    onError: toastError,
    onSettled: () => {
      onClose();
      return queryClient.invalidateQueries({ queryKey: ["quotas"] });
    },
  });
  return (
    <Confirm
      title={`Switch ${turnsOn ? "on" : "off"} the credit bank of ${organization.name}`}
      isOpen={isOpen}
      isBusy={change.isPending || bank.isPending}
      confirmLabel={turnsOn ? "Switch on" : "Switch off"}
      isDangerous={!turnsOn}
      onConfirm={() => bank.data && change.mutate({ version: bank.data.version ?? 0 })}
      onClose={onClose}
    >
      {turnsOn ? (
        <p>
          Credits are settled every 15 minutes from now on, in all pools. Nothing is posted for the past. Balances then order
          teams of one rank for spare GPUs.
        </p>
      ) : (
        <p>
          Balances stay, but are no longer settled and no longer order spare GPUs. Use while the bank is off is never posted.
        </p>
      )}
      {bank.error && <p className="bad-text" role="alert">{bank.error.message}</p>}
    </Confirm>
  );
}
