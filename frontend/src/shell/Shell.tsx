import { Button, Drawer, Menu, Modal, useMantineColorScheme } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, Outlet, useLocation } from "@tanstack/react-router";
import { lazy, Suspense, useCallback, useReducer, useState } from "react";

import { Banners } from "../announcements/Banners";
import { client, unwrap } from "../api/client";
import type { LiveState } from "../api/live";
import { sessionQuery } from "../api/queries";
import type { Session } from "../api/types";
import { Bell } from "../notices/Bell";
import { requestCountsQuery } from "../requests/queries";
import { FirstPassword } from "../session/FirstPassword";
import { RequiredFactor } from "../session/RequiredFactor";
import { forgetAllButSession } from "../session/forget";
import { Redirect } from "../session/Redirect";
import { SessionContext } from "../session/useSession";
import { Fact, Facts } from "../ui/Facts";
import { ErrorCard, Lines } from "../ui/states";
import { toastError } from "../ui/toast";
import { zoneName } from "../ui/units";
import { Freshness, SchedulerLine } from "./Freshness";
import { sectionsOf } from "./pages";
import { ScopeSwitcher } from "./ScopeSwitcher";
import { stringifySearch } from "./search";
import { SHORTCUTS, useShortcuts } from "./useShortcuts";
import { useLive } from "./useLive";
import "./shell.css";

const Palette = lazy(async () => ({ default: (await import("../palette/Palette")).Palette }));

/** The frame of every page behind the login: navigation, scope, freshness, theme, person. */
export function Shell() {
  const session = useQuery(sessionQuery);
  const [isEnrolling, setEnrolling] = useState(false);
  if (session.data?.user.must_add_second_factor && !isEnrolling) setEnrolling(true);
  if (session.data === undefined) {
    return (
      <main className="alone">
        {session.error ? (
          <ErrorCard error={session.error} onRetry={() => void session.refetch()} />
        ) : (
          <Lines count={5} />
        )}
      </main>
    );
  }
  if (session.data === null) return <ToLogin />;
  if (session.data.user.must_change_password) return <FirstPassword session={session.data} />;
  // Until the recovery codes are stored, though the session may be read anew meanwhile.
  if (isEnrolling) return <RequiredFactor session={session.data} onStored={() => setEnrolling(false)} />;
  return (
    <SessionContext value={session.data}>
      <Frame session={session.data} />
    </SessionContext>
  );
}

/** Leads to the login, which leads back to the address that was asked for. */
function ToLogin() {
  const { href } = useLocation();
  // The first one: while the login is being loaded, the location is already its own.
  const [next] = useState(href);
  return <Redirect href={`/login${stringifySearch({ next })}`} />;
}

function Frame({ session }: { session: Session }) {
  const live = useLive();
  const [isNavOpen, nav] = useDisclosure(false);
  const [isHelpOpen, help] = useDisclosure(false);
  const [opening, openPalette] = useReducer((count: number) => count + 1, 0);
  const openHelp = useCallback(() => help.open(), [help]);
  useShortcuts(openHelp, openPalette);
  return (
    <div className="shell">
      <a className="skip" href="#content">
        Skip to the page
      </a>
      <nav className="side" aria-label="Main">
        <Brand />
        <NavLinks session={session} />
      </nav>
      <div className="page">
        <header className="top">
          <Button className="only-phone" variant="default" size="xs" onClick={nav.open}>
            Menu
          </Button>
          <ScopeSwitcher />
          <Button
            variant="default"
            size="xs"
            onClick={openPalette}
            aria-keyshortcuts="Control+K"
            rightSection={<kbd className="mono faint hide">Ctrl K</kbd>}
          >
            Go to…
          </Button>
          <div className="right">
            <Freshness />
            <LiveBadge state={live} />
            <span className="hide" title="Times are shown in this zone">
              {zoneName(new Date()).replace(/ .*/, "")}
            </span>
            <Bell />
            <ThemeMenu />
            <UserMenu session={session} onHelp={help.open} />
          </div>
        </header>
        <SchedulerLine />
        <Banners />
        <main id="content" tabIndex={-1}>
          <Outlet />
        </main>
      </div>
      <Drawer
        opened={isNavOpen}
        onClose={nav.close}
        size={250}
        title={<Brand />}
        closeButtonProps={{ "aria-label": "Close the menu" }}
      >
        <nav className="side in-drawer" aria-label="Menu" onClick={nav.close}>
          <NavLinks session={session} />
        </nav>
      </Drawer>
      {opening > 0 && (
        <Suspense>
          <Palette session={session} opening={opening} />
        </Suspense>
      )}
      <Modal
        opened={isHelpOpen}
        onClose={help.close}
        title="Keyboard"
        closeButtonProps={{ "aria-label": "Close" }}
      >
        <Facts>
            {SHORTCUTS.map(([keys, meaning]) => (
              <Fact key={keys} name={<kbd className="mono">{keys}</kbd>}>
                {meaning}
              </Fact>
            ))}
          </Facts>
      </Modal>
    </div>
  );
}

function Brand() {
  return (
    <b className="brand">
      <span aria-hidden="true">≋</span> Tidegate
    </b>
  );
}

function NavLinks({ session }: { session: Session }) {
  return sectionsOf(session).map(({ title, items }) => (
    <div key={title ?? ""} role={title === null ? undefined : "group"} aria-label={title ?? undefined}>
      {title && (
        <div className="nav-title" aria-hidden="true">
          {title}
        </div>
      )}
      {items.map(({ to, label }) => (
        <Link key={to} to={to} activeOptions={{ exact: to === "/", includeSearch: false }}>
          {label}
          {to === "/requests" && <RequestsCount />}
        </Link>
      ))}
    </div>
  ));
}

/** The number of requests that wait for me: to decide, or to answer. */
function RequestsCount() {
  const counts = useQuery(requestCountsQuery).data;
  const waiting = counts === undefined ? 0 : counts.to_decide + counts.to_answer;
  if (waiting === 0) return null;
  return (
    <>
      {" "}
      <span className="nav-count" title={`${waiting} waiting for you`}>
        {waiting}
      </span>
    </>
  );
}

function LiveBadge({ state }: { state: LiveState }) {
  return (
    <span className="hide" role="status" aria-live="polite">
      {state === "live" && <span title="Changes show up by themselves">live</span>}
      {state === "polling" && (
        <span className="fresh old" title="The live connection is down; it is being tried again">
          refreshed every 30 s
        </span>
      )}
    </span>
  );
}

function ThemeMenu() {
  const { colorScheme, setColorScheme } = useMantineColorScheme({
    // Else a style tag is written while the scheme changes, which the CSP refuses.
    keepTransitions: true,
  });
  const choices = [
    ["light", "Light"],
    ["dark", "Dark"],
    ["auto", "System"],
  ] as const;
  return (
    <Menu position="bottom-end">
      <Menu.Target>
        <button type="button" className="plain top-menu">
          Theme
        </button>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.RadioGroup
          value={colorScheme}
          onChange={(value) =>
            setColorScheme(choices.find(([choice]) => choice === value)?.[0] ?? "auto")
          }
        >
          {choices.map(([value, label]) => (
            <Menu.RadioItem key={value} value={value} closeMenuOnClick>
              {label}
            </Menu.RadioItem>
          ))}
        </Menu.RadioGroup>
      </Menu.Dropdown>
    </Menu>
  );
}

function UserMenu({ session, onHelp }: { session: Session; onHelp: () => void }) {
  const queryClient = useQueryClient();
  const signOut = useMutation({
    mutationFn: () => unwrap(client.DELETE("/api/v1/session")),
    onError: toastError,
    onSuccess: () => {
      queryClient.setQueryData(sessionQuery.queryKey, null);
      forgetAllButSession(queryClient);
    },
  });
  const { user, grants, features } = session;
  return (
    <Menu position="bottom-end" width={260}>
      <Menu.Target>
        <button type="button" className="plain top-menu" aria-label={`Account of ${user.username}`}>
          {user.username}
        </button>
      </Menu.Target>
      <Menu.Dropdown>
        <div className="who">
          <b>{user.name || user.username}</b>
          <div className="dim">{user.login}</div>
          {grants.map((grant) => (
            <div key={`${grant.role} ${grant.node_path ?? ""}`} className="dim small">
              {grant.role.replaceAll("_", " ")}
              {" · "}
              {grant.node_path ?? "the platform"}
            </div>
          ))}
        </div>
        <Menu.Divider />
        <Menu.Item component={Link} to="/access">
          My access
        </Menu.Item>
        <Menu.Item onClick={onHelp}>Keyboard</Menu.Item>
        <Menu.Item onClick={() => signOut.mutate(undefined)}>Sign out</Menu.Item>
        <Menu.Divider />
        <div className="who small faint">Tidegate {features.version}</div>
      </Menu.Dropdown>
    </Menu>
  );
}
