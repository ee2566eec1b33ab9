import { Button } from "@mantine/core";
import { Link } from "@tanstack/react-router";

import type { RequestsSearch } from "./search";

/** Leads to the form of a new request, which is filled from `asked`. */
export function AskLink({ asked, children }: { asked: RequestsSearch; children: string }) {
  return (
    <Button variant="default" size="compact-sm" renderRoot={(props) => <Link to="/requests" search={asked} {...props} />}>
      {children}
    </Button>
  );
}
