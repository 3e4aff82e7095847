import { useQueryClient } from "@tanstack/react-query";
import { MenuIcon, Search } from "lucide-react";
import { Suspense, useEffect, useRef, useState } from "react";
import { Outlet, useLocation, useNavigate } from "react-router";
import { call } from "../api/client";
import { startLiveUpdates } from "../api/live";
import type { StreamState } from "../api/stream";
import { Button } from "../components/Button";
import { Toasts } from "../components/Toasts";
import { CommandPalette } from "./CommandPalette";
import { ConnectionNotice } from "./ConnectionNotice";
import { KeyboardHelp } from "./KeyboardHelp";
import styles from "./Layout.module.css";
import { NamespaceSelect } from "./NamespaceSelect";
import { Navigation } from "./Navigation";
import { NAVIGATION } from "./navigationItems";
import { PageSkeleton } from "./PageSkeleton";
import { ReadOnlyNotice } from "./ReadOnlyNotice";
import { SetupOffer } from "./SetupOffer";
import { focusFilter, useCommandKey, useShortcuts } from "./shortcuts";
import { ThemeSwitch } from "./ThemeSwitch";
import { UserMenu } from "./UserMenu";

/** How long a stream may be interrupted before the session is checked. */
const SESSION_CHECK_MS = 2_000;

/** The layout of every page: navigation, namespace, theme, shortcuts and the event stream. */
export function Layout() {
  const cache = useQueryClient();
  const navigate = useNavigate();
  const { pathname } = useLocation();
  const [stream, setStream] = useState<StreamState>("connecting");
  const [help, setHelp] = useState(false);
  const [palette, setPalette] = useState(false);
  const drawer = useRef<HTMLDialogElement>(null);
  const content = useRef<HTMLElement>(null);

  useEffect(() => startLiveUpdates(cache, "", setStream), [cache]);
  useEffect(() => {
    if (stream !== "reconnecting") return;
    // EventSource does not report why it failed. If the session has ended, this request returns 401 and shows the login.
    const timer = setTimeout(() => call("/whoami").catch(() => {}), SESSION_CHECK_MS);
    return () => clearTimeout(timer);
  }, [stream]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: scroll to the top on every navigation.
  useEffect(() => {
    content.current?.scrollTo(0, 0);
  }, [pathname]);

  useShortcuts({
    "/": focusFilter,
    "?": () => setHelp(true),
    n: () => navigate("/tasks/create"),
    ...Object.fromEntries(
      NAVIGATION.flatMap((group) => group.items).map((item) => [`g ${item.key}`, () => navigate(item.to)]),
    ),
  });

  useCommandKey(() => setPalette(true));

  return (
    <div className={styles.layout}>
      <a href="#content" className={styles.skip}>
        Skip to content
      </a>
      <aside className={styles.side}>
        <Navigation />
      </aside>
      <dialog ref={drawer} className={styles.drawer} aria-label="Navigation">
        <Navigation onNavigate={() => drawer.current?.close()} />
      </dialog>
      <div className={styles.main}>
        <header className={styles.bar}>
          <div className={styles.left}>
            <Button
              className={styles.open}
              variant="plain"
              aria-label="Open navigation"
              icon={<MenuIcon size={18} />}
              onClick={() => drawer.current?.showModal()}
            />
            <NamespaceSelect />
          </div>
          <div className={styles.right}>
            <Button
              icon={<Search size={15} />}
              aria-label="Go to a page or object, Ctrl K"
              aria-keyshortcuts="Control+K Meta+K"
              title="Go to a page or object (Ctrl-K)"
              onClick={() => setPalette(true)}
            >
              <kbd className={styles.key}>Ctrl K</kbd>
            </Button>
            <ThemeSwitch />
            <UserMenu onHelp={() => setHelp(true)} />
          </div>
        </header>
        <main id="content" className={styles.content} ref={content} tabIndex={-1}>
          <ReadOnlyNotice />
          {pathname === "/" && <SetupOffer />}
          <Suspense fallback={<PageSkeleton />}>
            <Outlet />
          </Suspense>
        </main>
      </div>
      <CommandPalette open={palette} onClose={() => setPalette(false)} />
      <KeyboardHelp open={help} onClose={() => setHelp(false)} />
      <ConnectionNotice state={stream} />
      <Toasts />
    </div>
  );
}
