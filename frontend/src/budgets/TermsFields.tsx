import { Select, TextInput } from "@mantine/core";

import type { Budget } from "../api/types";
import { readAmount } from "./amounts";

const WINDOWS = [
  { value: "month", label: "Month" },
  { value: "quarter", label: "Quarter" },
  { value: "year", label: "Year" },
  { value: "rolling", label: "Rolling days" },
];
const POLICIES = [
  { value: "notify", label: "Notify" },
  { value: "stop_borrowing", label: "Stop borrowing" },
  { value: "stop_starts", label: "Stop starts" },
];
const EFFECTS: Record<Budget["policy"], string> = {
  notify: "Only alerts.",
  stop_borrowing: "Teams keep to their guarantees until the budget has room.",
  stop_starts: "A job starts only if the most that it may use fits into what is left.",
};

interface Terms {
  measure: Budget["measure"];
  limit: string;
  window: Budget["window"];
  days: string;
  policy: Budget["policy"];
}

export function checkLimit(limit: string, { measure }: Pick<Terms, "measure">): string | null {
  return readAmount(limit, measure) === null ? "Give a number above 0, such as 5000." : null;
}

export function checkDays(days: string, { window }: Pick<Terms, "window">): string | null {
  return window === "rolling" && !(/^\d+$/.test(days) && Number(days) >= 1 && Number(days) <= 366)
    ? "Give a number of days from 1 to 366."
    : null;
}

/** The limit, the period and the effect of a budget. A user's budget cannot stop borrowing. */
export function TermsFields({
  form,
  ofUser,
}: {
  form: { values: Terms; getInputProps: (name: keyof Terms) => object };
  ofUser: boolean;
}) {
  const { values } = form;
  return (
    <>
      <TextInput
        label={`Limit${values.measure === "money" ? "" : ` in ${values.measure === "credits" ? "credits" : "GPU-hours"}`}`}
        inputMode="decimal"
        {...form.getInputProps("limit")}
      />
      <div className="budget-pair">
        <Select label="Period" data={WINDOWS} allowDeselect={false} {...form.getInputProps("window")} />
        {values.window === "rolling" && (
          <TextInput
            label="Days"
            description="Today and the days before."
            inputMode="numeric"
            {...form.getInputProps("days")}
          />
        )}
      </div>
      <Select
        label="At 100 %"
        description={EFFECTS[values.policy]}
        data={ofUser ? POLICIES.filter(({ value }) => value !== "stop_borrowing") : POLICIES}
        allowDeselect={false}
        {...form.getInputProps("policy")}
      />
    </>
  );
}
