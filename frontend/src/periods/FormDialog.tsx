import { Button, Modal } from "@mantine/core";
import type { ReactNode } from "react";

import { useReturnFocus } from "../ui/useReturnFocus";

/** A form in a dialog, with its refusal and its buttons. */
export function FormDialog({
  title,
  error,
  isBusy,
  isDisabled = false,
  action,
  onSubmit,
  onClose,
  children,
}: {
  title: string;
  error: Error | null;
  isBusy: boolean;
  isDisabled?: boolean;
  action: string;
  onSubmit: () => void;
  onClose: () => void;
  children: ReactNode;
}) {
  useReturnFocus();
  return (
    <Modal opened onClose={onClose} title={title} closeButtonProps={{ "aria-label": "Close" }}>
      <form
        className="stack"
        onSubmit={(event) => {
          event.preventDefault();
          onSubmit();
        }}
      >
        {children}
        {error && (
          <p role="alert" className="bad">
            {error.message}
          </p>
        )}
        <div className="inline end">
          <Button variant="default" onClick={onClose}>
            Back
          </Button>
          <Button type="submit" loading={isBusy} disabled={isDisabled}>
            {action}
          </Button>
        </div>
      </form>
    </Modal>
  );
}
