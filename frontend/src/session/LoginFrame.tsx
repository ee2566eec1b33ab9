import type { ReactNode } from "react";

import { Card } from "../ui/Card";
import "./login.css";

/** The frame of the pages outside the navigation: the brand, a title, and a line below it. */
export function LoginFrame({ title, line, children }: { title: string; line: ReactNode; children: ReactNode }) {
  return (
    <main className="login">
      <Card className="stack narrow">
        <div>
          <div className="brand">
            <span aria-hidden="true">≋</span> Tidegate
          </div>
          <h1>{title}</h1>
          {line !== null && <p className="sub breaks">{line}</p>}
        </div>
        {children}
      </Card>
    </main>
  );
}
