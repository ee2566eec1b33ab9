import { Button, Modal } from "@mantine/core";
import type { ReactNode } from "react";

/** Asks before something that cannot be undone. The safe answer has the focus. */
export function Confirm({
  title,
  isOpen,
  isBusy,
  confirmLabel,
  isDangerous = false,
  isDisabled = false,
  onConfirm,
  onClose,
  children,
}: {
  title: string;
  isOpen: boolean;
  isBusy: boolean;
  confirmLabel: string;
  isDangerous?: boolean;
  /** Whether there is nothing to confirm. */
  isDisabled?: boolean;
  onConfirm: () => void;
  onClose: () => void;
  children: ReactNode;
}) {
  return (
    <Modal opened={isOpen} onClose={onClose} title={title} closeButtonProps={{ "aria-label": "Close" }}>
      <div className="stack">
        <div>{children}</div>
        <div className="inline end">
          <Button variant="default" onClick={onClose} data-autofocus>
            Back
          </Button>
          <Button color={isDangerous ? "red" : undefined} loading={isBusy} disabled={isDisabled} onClick={onConfirm}>
            {confirmLabel}
          </Button>
        </div>
      </div>
    </Modal>
  );
}
