import { Select } from "@mantine/core";

import type { ExportDataset, ExportFormat } from "./exportQueries";

export const FORMATS: readonly { value: ExportFormat; label: string }[] = [
  { value: "csv", label: "CSV" },
  { value: "xlsx", label: "Excel (XLSX)" },
  { value: "parquet", label: "Parquet" },
  { value: "pdf", label: "PDF report" },
];

export const DATASETS: readonly { value: ExportDataset; label: string }[] = [
  { value: "charges", label: "Charges" },
  { value: "closed_charges", label: "Charges of closed months" },
  { value: "focus_cost_and_usage", label: "FOCUS Cost and Usage" },
  { value: "focus_billing_period", label: "FOCUS Billing Period" },
  { value: "focus_contract_commitment", label: "FOCUS Contract Commitment" },
  { value: "focus_invoice_detail", label: "FOCUS Invoice Detail" },
];

/** One of a few fixed values. */
export function Choice<Value extends string>({
  label,
  choices,
  value,
  onChange,
}: {
  label: string;
  choices: readonly { value: Value; label: string }[];
  value: Value;
  onChange: (value: Value) => void;
}) {
  return (
    <Select
      label={label}
      allowDeselect={false}
      data={choices}
      value={value}
      onChange={(chosen) => {
        const next = choices.find((each) => each.value === chosen);
        if (next) onChange(next.value);
      }}
    />
  );
}
