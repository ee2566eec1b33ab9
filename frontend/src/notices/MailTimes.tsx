import { Button, Checkbox, Select, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";

import { ApiError } from "../api/client";
import type { NoticePreferences } from "../api/types";
import { CliLine } from "../ui/CliLine";
import { commandLine, shellQuote } from "../ui/command";
import { useChange } from "./preferenceQueries";

const DIGESTS = [
  { value: "none", label: "At once, at most one mail a minute" },
  { value: "hourly", label: "At each full hour" },
  { value: "daily", label: "Each day at 08:00" },
] as const;

/** Digest, quiet hours and time zone of my mails. */
export function MailTimes({ found }: { found: NoticePreferences }) {
  const change = useChange(found);
  const form = useForm({
    initialValues: {
      digest: found.digest,
      isQuiet: found.quiet_hours !== null,
      start: found.quiet_hours?.start ?? "22:00",
      end: found.quiet_hours?.end ?? "07:00",
      zone: found.time_zone,
    },
  });
  const { digest, isQuiet, start, end, zone } = form.values;
  const here = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const refusals = change.error instanceof ApiError ? change.error.fieldErrors : {};
  const quiet = isQuiet ? `${start}-${end}` : "off";
  return (
    <form
      className="stack mail-times"
      onSubmit={form.onSubmit(() =>
        change.mutate({ digest, time_zone: zone, quiet_hours: isQuiet ? { start, end } : null }),
      )}
    >
      <Select
        label="Mail comes"
        description="Preemptions, time limits and silent clusters never wait for a digest."
        data={DIGESTS}
        allowDeselect={false}
        {...form.getInputProps("digest")}
      />
      <Checkbox
        label="Quiet hours"
        description="Mail of these hours comes at their end."
        {...form.getInputProps("isQuiet", { type: "checkbox" })}
      />
      {isQuiet && (
        <div className="inline">
          <TextInput type="time" label="From" required {...form.getInputProps("start")}  />
          <TextInput type="time" label="Until" required {...form.getInputProps("end")} error={refusals.quiet_hours} />
        </div>
      )}
      <TextInput
        label="Time zone"
        required
        {...form.getInputProps("zone")}
        error={refusals.time_zone}
        description={
          zone !== here && (
            <button type="button" className="plain link" onClick={() => form.setFieldValue("zone", here)}>
              Use {here}, the zone of this browser
            </button>
          )
        }
      />
      <Button type="submit" style={{ alignSelf: "start" }} loading={change.isPending} disabled={!form.isDirty()}>
        Save
      </Button>
      <CliLine command={commandLine(`tidegate notify quiet ${shellQuote(quiet)}`, { zone })} />
      <CliLine command={`tidegate notify digest ${digest}`} />
    </form>
  );
}
