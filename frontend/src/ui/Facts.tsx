import type { ReactNode } from "react";

/** Names and values, a line each: right under right, or `isLeft` for values that are text. */
export function Facts({
  label,
  isLeft = false,
  className,
  children,
}: {
  label?: string;
  isLeft?: boolean;
  className?: string;
  children: ReactNode;
}) {
  const classes = ["facts", isLeft && "left", className].filter(Boolean).join(" ");
  return (
    <table className={classes} aria-label={label}>
      <tbody>{children}</tbody>
    </table>
  );
}

/** One line of `Facts`. */
export function Fact({ name, className, children }: { name: ReactNode; className?: string; children: ReactNode }) {
  return (
    <tr>
      <th scope="row" className={className}>
        {name}
      </th>
      <td>{children}</td>
    </tr>
  );
}
