import { Link } from "@tanstack/react-router";

import { usePageTitle } from "../ui/usePageTitle";

/** For an address that is none, inside the frame like any page. */
export function NotFoundPage() {
  usePageTitle("No such page");
  return (
    <div className="card empty">
      <h1>There is no such page</h1>
      <p>Check the address, or go on from the start.</p>
      <Link to="/">Home</Link>
    </div>
  );
}
