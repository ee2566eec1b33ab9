import { MantineProvider } from "@mantine/core";
import { Notifications } from "@mantine/notifications";
import { QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";

import { createQueryClient } from "./api/queryClient";
import { createAppRouter } from "./shell/router";
import { theme } from "./ui/theme";
import "@fontsource-variable/inter/wght.css";
import "./ui/mantine.css";
import "./ui/tokens.css";
import "./ui/base.css";

const queryClient = createQueryClient();
const router = createAppRouter(queryClient);
const root = document.getElementById("root");
if (root === null) throw new Error("index.html has no #root");

createRoot(root).render(
  <StrictMode>
    <MantineProvider
      theme={theme}
      defaultColorScheme="auto"
      withCssVariables={false}
      withGlobalClasses={false}
    >
      <QueryClientProvider client={queryClient}>
        <RouterProvider router={router} />
        <Notifications position="bottom-right" limit={3} />
      </QueryClientProvider>
    </MantineProvider>
  </StrictMode>,
);
