import { Button, TextInput } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useSearch } from "@tanstack/react-router";
import { useState } from "react";

import { client, unwrap } from "../api/client";
import type { RateCard } from "../api/types";
import { NoCosts } from "../billing/NoCosts";
import { may } from "../session/access";
import { useSession } from "../session/useSession";
import { Card } from "../ui/Card";
import { CliLine } from "../ui/CliLine";
import { useNowMs } from "../ui/now";
import { Page } from "../ui/Page";
import { Empty, Lines, QueryView } from "../ui/states";
import { toastDone, toastError } from "../ui/toast";
import { CompareCard } from "./CompareCard";
import { PriceDialog, type PriceDraft } from "./PriceDialog";
import { PriceTable } from "./PriceTable";
import { rateCardsQuery } from "./queries";
import { TermsDialog, type TermsDraft } from "./TermsDialog";
import { TermsTable } from "./TermsTable";
import { Timeline } from "./Timeline";
import "./prices.css";

/** The prices of an organization: past, current and scheduled. */
export function PricesPage() {
  const session = useSession();
  const { scope } = useSearch({ from: "/shell/prices" });
  const cards = useQuery({ ...rateCardsQuery, enabled: may(session, "view_costs") });
  const wanted = scope?.split("/")[0];
  const home = session.user.organization?.slug;
  if (!may(session, "view_costs")) {
    return (
      <Page title="Prices">
        <NoCosts />
      </Page>
    );
  }
  return (
    <QueryView
      query={cards}
      loading={
        <Page title="Prices">
          <Card>
            <Lines count={8} label="Loading the prices" />
          </Card>
        </Page>
      }
    >
      {(found) => {
        const card = found.find(({ organization }) => organization === (wanted ?? home)) ?? (wanted ? undefined : found[0]);
        return card === undefined ? <NoCard organization={wanted ?? home} /> : <OfCard key={card.id} card={card} />;
      }}
    </QueryView>
  );
}

function OfCard({ card }: { card: RateCard }) {
  const nowMs = useNowMs();
  const [draft, setDraft] = useState<PriceDraft | null>(null);
  const [termsDraft, setTermsDraft] = useState<TermsDraft | null>(null);
  return (
    <Page
      title={`Prices · ${card.organization}`}
      lead={`In ${card.currency}. Days begin at midnight in ${card.time_zone}. A price that has applied never changes.`}
      actions={card.can_edit && <Button onClick={() => setDraft({})}>Set a price</Button>}
    >
      <div className="rows">
        {card.lines.length === 0 ? (
          <Card>
            <Empty>
              No prices yet, so usage costs nothing. {card.can_edit ? "Set the first one." : "Finance and administrators set them."}
            </Empty>
          </Card>
        ) : (
          <>
            <Timeline card={card} nowMs={nowMs} />
            <PriceTable card={card} nowMs={nowMs} onChange={setDraft} />
          </>
        )}
        <TermsTable card={card} nowMs={nowMs} onChange={setTermsDraft} />
        {card.lines.length > 0 && <CompareCard card={card} nowMs={nowMs} />}
        {card.can_edit && (
          <p className="small dim">
            Reports and statements keep {card.currency}, so the currency of {card.organization} never changes. To charge in another
            one, make a new organization with a rate card in it, and submit jobs there from a date on.
          </p>
        )}
        <CliLine command={`tidegate prices list --organization ${card.organization}`} />
      </div>
      <PriceDialog card={card} draft={draft} onClose={() => setDraft(null)} />
      <TermsDialog card={card} draft={termsDraft} onClose={() => setTermsDraft(null)} />
    </Page>
  );
}

function NoCard({ organization }: { organization: string | undefined }) {
  const session = useSession();
  const queryClient = useQueryClient();
  const [currency, setCurrency] = useState("EUR");
  const create = useMutation({
    mutationFn: (slug: string) => unwrap(client.POST("/api/v1/rate-cards", { body: { organization: slug, currency } })),
    onSuccess: () => toastDone("The rate card is created. Set its first price."),
    onError: toastError,
    onSettled: () => queryClient.invalidateQueries({ queryKey: ["reports"] }),
  });
  const mayCreate = organization !== undefined && may(session, "manage_prices", organization);
  return (
    <Page title="Prices">
      <Card label="No rate card">
        <h2>No rate card yet</h2>
        <p className="sentence">
          {organization ?? "No organization that you may see"} has no rate card, so usage costs nothing.
        </p>
        {mayCreate ? (
          <form
            className="stack"
            onSubmit={(event) => {
              event.preventDefault();
              create.mutate(organization);
            }}
          >
            <TextInput
              label="Currency"
              description="ISO 4217, such as EUR. It holds for all prices and never changes."
              required
              maxLength={3}
              value={currency}
              onChange={(event) => setCurrency(event.currentTarget.value.toUpperCase())}
            />
            <div className="inline">
              <Button type="submit" loading={create.isPending}>
                Create the rate card
              </Button>
            </div>
          </form>
        ) : (
          <p className="dim">Finance and administrators of the organization can create one.</p>
        )}
      </Card>
    </Page>
  );
}
