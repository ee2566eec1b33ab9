import { Link } from "@tanstack/react-router";

import { NoPage } from "../ui/Page";

/** For an address that is none, inside the frame like any page. */
export function NotFoundPage() {
  return (
    <NoPage title="No such page" heading="There is no such page">
      <p>Check the address, or go on from the start.</p>
      <Link to="/">Home</Link>
    </NoPage>
  );
}
