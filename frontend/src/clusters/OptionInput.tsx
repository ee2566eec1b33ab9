import { TextInput, type TextInputProps } from "@mantine/core";

import type { OptionField } from "./options";

export function OptionInput({
  field,
  error,
  ...input
}: {
  field: OptionField;
  error: string | undefined;
} & Pick<TextInputProps, "value" | "onChange" | "onFocus" | "onBlur">) {
  return (
    <TextInput
      label={field.label}
      description={field.help}
      placeholder={field.placeholder}
      required={field.isRequired}
      inputMode={field.isNumber ? "numeric" : undefined}
      spellCheck={false}
      {...input}
      error={error}
    />
  );
}
