import { Select, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";

import type { RoleGrant } from "../api/types";
import { may } from "../session/access";
import { useSession } from "../session/useSession";
import { rolesQuery } from "./queries";
import { roleWords } from "./use";
import { useNode } from "./useNode";

export interface RoleChoice {
  role: RoleGrant["role"];
  /** A day, "2026-12-31", or empty: the role does not expire. */
  lastDay: string;
}

/** The role and its last day. Only roles whose rights the reader has are offered. */
export function RoleFields({ value, onChange }: { value: RoleChoice; onChange: (next: RoleChoice) => void }) {
  const node = useNode();
  const session = useSession();
  const roles = useQuery(rolesQuery);
  const offered = (roles.data ?? []).filter(
    ({ role, permissions }) =>
      role !== "platform_admin" && permissions.every((each) => may(session, each, node.path)),
  );
  const sentence = roles.data?.find(({ role }) => role === value.role)?.sentence;
  return (
    <>
      <Select
        label="Role"
        description={sentence}
        allowDeselect={false}
        data={offered.map(({ role }) => ({ value: role, label: roleWords(role) }))}
        value={value.role}
        onChange={(role) => role && onChange({ ...value, role })}
      />
      <TextInput
        label="Last day"
        description="The role ends after this day. Empty: it does not expire."
        type="date"
        value={value.lastDay}
        onChange={(event) => onChange({ ...value, lastDay: event.currentTarget.value })}
      />
    </>
  );
}

/** The end of a day in the reader's time zone, as the API takes it; null for none. */
export function endOfDay(day: string): string | null {
  if (day === "") return null;
  const end = new Date(`${day}T00:00:00`);
  end.setDate(end.getDate() + 1);
  return end.toISOString().replace(/\.\d{3}Z$/, "Z");
}

/** The last day before a time, as `endOfDay` takes it. */
export function lastDayOf(at: string | null): string {
  if (at === null) return "";
  const day = new Date(Date.parse(at) - 1);
  const part = (value: number) => String(value).padStart(2, "0");
  return `${day.getFullYear()}-${part(day.getMonth() + 1)}-${part(day.getDate())}`;
}
