import { Button } from "@mantine/core";
import { useState } from "react";

import { allow, forbid, isAllowed, obstacle } from "./browserNotices";

/** A button that lets this browser tell when a job starts. */
export function BrowserNotices() {
  const [isOn, setOn] = useState(isAllowed);
  const reason = obstacle();
  if (isOn) {
    return (
      <>
        <p className="dim">This browser tells you when one of your jobs starts, while a page of the portal is open.</p>
        <Button
          variant="default"
          onClick={() => {
            forbid();
            setOn(false);
          }}
        >
          Turn notifications off
        </Button>
      </>
    );
  }
  return (
    <>
      <p className="dim">{reason ?? "A notification when one of your jobs starts, while a page of the portal is open."}</p>
      {reason === null && (
        <Button variant="default" onClick={() => void allow().then(setOn)}>
          Notify me when a job starts
        </Button>
      )}
    </>
  );
}
