import { Link } from "@tanstack/react-router";

export function NotFoundPage() {
  return (
    <div className="card empty">
      <h1>There is no such page</h1>
      <p>It may have moved, or it may belong to an organization that you cannot see.</p>
      <Link to="/">Home</Link>
    </div>
  );
}
