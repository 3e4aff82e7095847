import { useQueryClient } from "@tanstack/react-query";
import { MenuIcon } from "lucide-react";
import { Suspense, useEffect, useRef, useState } from "react";
import { Outlet, useLocation, useNavigate } from "react-router";
import { call } from "../api/client";
import { startLive } from "../api/live";
import type { StreamState } from "../api/stream";
import { Button } from "../components/Button";
import { Toasts } from "../components/Toasts";
import { ConnectionNotice } from "./ConnectionNotice";
import { KeyboardHelp } from "./KeyboardHelp";
import styles from "./Layout.module.css";
import { NamespaceSelect } from "./NamespaceSelect";
import { Navigation } from "./Navigation";
import { PageSkeleton } from "./PageSkeleton";
import { PLACES } from "./places";
import { ReadOnlyNotice } from "./ReadOnlyNotice";
import { focusFilter, useShortcuts } from "./shortcuts";
import { ThemeSwitch } from "./ThemeSwitch";
import { UserMenu } from "./UserMenu";

/** How long a broken stream may take before the session is checked. */
const SESSION_CHECK_MS = 2_000;

/** The frame around every page: navigation, namespace, theme, keys, and the one live connection. */
export function Layout() {
  const cache = useQueryClient();
  const navigate = useNavigate();
  const { pathname } = useLocation();
  const [stream, setStream] = useState<StreamState>("connecting");
  const [help, setHelp] = useState(false);
  const drawer = useRef<HTMLDialogElement>(null);
  const content = useRef<HTMLElement>(null);

  useEffect(() => startLive(cache, "", setStream), [cache]);
  useEffect(() => {
    if (stream !== "reconnecting") return;
    // A stream does not say why it broke. If the session has ended, this call finds out and leads to the login.
    const timer = setTimeout(() => call("/whoami").catch(() => {}), SESSION_CHECK_MS);
    return () => clearTimeout(timer);
  }, [stream]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: a new page starts at its top.
  useEffect(() => {
    content.current?.scrollTo(0, 0);
  }, [pathname]);

  useShortcuts({
    "/": focusFilter,
    "?": () => setHelp(true),
    n: () => navigate("/tasks/create"),
    ...Object.fromEntries(
      PLACES.flatMap((group) => group.places).map((place) => [`g ${place.key}`, () => navigate(place.to)]),
    ),
  });

  return (
    <div className={styles.layout}>
      <a href="#content" className={styles.skip}>
        Skip to the content
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
              look="plain"
              aria-label="Open the navigation"
              icon={<MenuIcon size={18} />}
              onClick={() => drawer.current?.showModal()}
            />
            <NamespaceSelect />
          </div>
          <div className={styles.right}>
            <ThemeSwitch />
            <UserMenu onHelp={() => setHelp(true)} />
          </div>
        </header>
        <main id="content" className={styles.content} ref={content} tabIndex={-1}>
          <ReadOnlyNotice />
          <Suspense fallback={<PageSkeleton />}>
            <Outlet />
          </Suspense>
        </main>
      </div>
      <KeyboardHelp open={help} onClose={() => setHelp(false)} />
      <ConnectionNotice state={stream} />
      <Toasts />
    </div>
  );
}
