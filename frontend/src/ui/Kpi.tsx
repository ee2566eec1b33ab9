import type { ReactNode } from "react";
import { Card } from "./Card";

/** A headline figure: number first, what it is, and a smaller line of context. */
export function Kpi({
  value,
  label,
  context,
  tone,
}: {
  value: ReactNode;
  label: ReactNode;
  context?: ReactNode;
  tone?: "borrow" | "wait";
}) {
  return (
    <Card className="kpi" role="group">
      <div className={tone ? `v ${tone}` : "v"}>{value}</div>
      <div className="l">{label}</div>
      <div className="s">{context ?? "\u00a0"}</div>
    </Card>
  );
}
