import { Button, Select } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { client, unwrap } from "../api/client";
import { may } from "../session/access";
import { useSession } from "../session/useSession";
import { Card } from "../ui/Card";
import { CliLine } from "../ui/CliLine";
import { DataTable } from "../ui/DataTable";
import { Empty, Lines, QueryView } from "../ui/states";
import { Time } from "../ui/Time";
import { toastError } from "../ui/toast";
import { Choice, DATASETS, FORMATS } from "./exportChoices";
import {
  deliveriesQuery,
  deliverySchedulesQuery,
  deliveryTargetsQuery,
  type Delivery,
  type DeliverySchedule,
} from "./deliveryQueries";
import type { ExportDataset, ExportFormat } from "./exportQueries";

const FREQUENCIES = [
  { value: "monthly", label: "Monthly, once closed" },
  { value: "daily", label: "Daily, the month so far" },
] as const;

type Frequency = DeliverySchedule["frequency"];

const TONES = { waiting: "wait", done: "run", failed: "bad" } as const;

/** Files that the portal delivers by itself: their schedules, and what became of each file. */
export function Deliveries({ organization }: { organization: string }) {
  const mayChange = may(useSession(), "manage_prices", organization);
  const targets = useQuery(deliveryTargetsQuery);
  const schedules = useQuery(deliverySchedulesQuery);
  const deliveries = useQuery(deliveriesQuery);
  return (
    <Card label="Scheduled deliveries" tabIndex={0}>
      <h2>Scheduled deliveries</h2>
      <p className="sub">The portal stores each file at a folder or an S3-compatible store, and its manifest beside it.</p>
      <div className="stack">
        <QueryView query={targets} loading={<Lines count={1} label="Loading the targets" />}>
          {(items) =>
            items.length === 0 ? (
              <Empty>No targets. The operator names folders and stores in TIDEGATE_DELIVERY_TARGETS.</Empty>
            ) : (
              mayChange && <NewSchedule organization={organization} targets={items.map(({ name }) => name)} />
            )
          }
        </QueryView>
        <QueryView query={schedules} loading={<Lines count={1} label="Loading the schedules" />}>
          {(items) => {
            const running = items.filter((item) => item.ended_at === null && item.organization === organization);
            return running.length === 0 ? (
              <Empty>Nothing is delivered by itself.</Empty>
            ) : (
              <Schedules items={running} mayChange={mayChange} />
            );
          }}
        </QueryView>
        <QueryView query={deliveries} loading={<Lines count={2} label="Loading the deliveries" />}>
          {(items) => {
            const own = items.filter(({ schedule }) => schedule.organization === organization);
            return own.length === 0 ? null : <DeliveryTable items={own} mayChange={mayChange} />;
          }}
        </QueryView>
      </div>
    </Card>
  );
}

function NewSchedule({ organization, targets }: { organization: string; targets: readonly string[] }) {
  const queries = useQueryClient();
  const [target, setTarget] = useState(targets[0] ?? "");
  const [frequency, setFrequency] = useState<Frequency>("monthly");
  const [dataset, setDataset] = useState<ExportDataset>("charges");
  const [format, setFormat] = useState<ExportFormat>("csv");
  const create = useMutation({
    mutationFn: () =>
      unwrap(client.POST("/api/v1/delivery-schedules", { body: { organization, dataset, format, frequency, target } })),
    onSuccess: () => queries.invalidateQueries({ queryKey: ["reports", "delivery-schedules"] }),
    onError: toastError,
  });
  return (
    <>
      <div className="filters">
        <Choice label="When" choices={FREQUENCIES} value={frequency} onChange={setFrequency} />
        <Choice label="Delivered content" choices={DATASETS} value={dataset} onChange={setDataset} />
        <Choice label="Delivered format" choices={FORMATS} value={format} onChange={setFormat} />
        <Select
          label="Target"
          allowDeselect={false}
          data={[...targets]}
          value={target}
          onChange={(value) => value !== null && setTarget(value)}
        />
        <Button variant="default" loading={create.isPending} onClick={() => create.mutate()}>
          Deliver
        </Button>
      </div>
      <CliLine
        command={`tidegate deliveries schedule ${target} --every ${frequency} --dataset ${dataset} --format ${format} --organization ${organization}`}
      />
    </>
  );
}

function Schedules({ items, mayChange }: { items: readonly DeliverySchedule[]; mayChange: boolean }) {
  const queries = useQueryClient();
  const end = useMutation({
    mutationFn: (id: string) =>
      unwrap(
        client.DELETE("/api/v1/delivery-schedules/{delivery_schedule_id}", {
          params: { path: { delivery_schedule_id: id } },
        }),
      ),
    onSuccess: () => queries.invalidateQueries({ queryKey: ["reports"] }),
    onError: toastError,
  });
  return (
    <DataTable
      label="Schedules"
      rows={items}
      rowKey={({ id }) => id}
      columns={[
        { header: "File", isHeading: true, cell: (item) => contentOf(item) },
        { header: "When", cell: ({ frequency }) => frequency },
        { header: "Target", cell: ({ target }) => target },
        { header: "By", only: "wide", cell: ({ created_by }) => created_by },
        ...(mayChange
          ? [
              {
                header: "Action",
                isRight: true,
                cell: (item: DeliverySchedule) => (
                  <Button
                    size="compact-sm"
                    variant="default"
                    aria-label={`End ${contentOf(item)} to ${item.target}`}
                    loading={end.isPending && end.variables === item.id}
                    onClick={() => end.mutate(item.id)}
                  >
                    End
                  </Button>
                ),
              },
            ]
          : []),
      ]}
    />
  );
}

function DeliveryTable({ items, mayChange }: { items: readonly Delivery[]; mayChange: boolean }) {
  const queries = useQueryClient();
  const repeat = useMutation({
    mutationFn: (id: string) =>
      unwrap(client.POST("/api/v1/deliveries/{delivery_id}/repeat", { params: { path: { delivery_id: id } } })),
    onSuccess: () => queries.invalidateQueries({ queryKey: ["reports", "deliveries"] }),
    onError: toastError,
  });
  return (
    <DataTable
      label="Deliveries"
      rows={items}
      rowKey={({ id }) => id}
      columns={[
        {
          header: "File",
          isHeading: true,
          cell: (item) => <span className="file-name">{item.file_name ?? contentOf(item.schedule)}</span>,
        },
        { header: "Until", cell: ({ due_on, schedule }) => (schedule.frequency === "daily" ? due_on : due_on.slice(0, 7)) },
        { header: "Target", only: "wide", cell: ({ schedule }) => schedule.target },
        {
          header: "State",
          cell: (item) => (
            <>
              <span className={`pill ${TONES[item.state]}`}>{item.state}</span>{" "}
              <span className="small faint">
                {item.message}
                {item.state === "done" && item.delivered_at !== null && <Time at={item.delivered_at} />}
              </span>
            </>
          ),
        },
        ...(mayChange
          ? [
              {
                header: "Action",
                isRight: true,
                cell: (item: Delivery) =>
                  item.state !== "waiting" && (
                    <Button
                      size="compact-sm"
                      variant="default"
                      aria-label={`Deliver ${item.file_name ?? contentOf(item.schedule)} of ${item.due_on} again`}
                      loading={repeat.isPending && repeat.variables === item.id}
                      onClick={() => repeat.mutate(item.id)}
                    >
                      Deliver again
                    </Button>
                  ),
              },
            ]
          : []),
      ]}
    />
  );
}

function contentOf({ dataset, format }: DeliverySchedule): string {
  const content = DATASETS.find(({ value }) => value === dataset)?.label ?? dataset;
  return `${content}, ${FORMATS.find(({ value }) => value === format)?.label ?? format}`;
}
