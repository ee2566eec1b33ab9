import { TextInput } from "@mantine/core";

import type { OptionField } from "./options";

export function OptionInput({
  field,
  value,
  error,
  onChange,
}: {
  field: OptionField;
  value: string | undefined;
  error: string | undefined;
  onChange: (value: string) => void;
}) {
  return (
    <TextInput
      label={field.label}
      description={field.help}
      placeholder={field.placeholder}
      required={field.isRequired}
      inputMode={field.isNumber ? "numeric" : undefined}
      spellCheck={false}
      value={value ?? ""}
      error={error}
      onChange={(event) => onChange(event.currentTarget.value)}
    />
  );
}
