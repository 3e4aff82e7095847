import { NavLink } from "react-router";
import styles from "./Navigation.module.css";
import { useNamespace } from "./namespace";
import { NAVIGATION } from "./navigationItems";
import { useInfo } from "./session";

export function Navigation({ onNavigate }: { onNavigate?: () => void }) {
  const [namespace] = useNamespace();
  const info = useInfo();
  const search = namespace === "" ? "" : `?namespace=${encodeURIComponent(namespace)}`;
  return (
    <nav className={styles.nav} aria-label="Main">
      <NavLink
        to={{ pathname: "/", search }}
        className={styles.brand}
        onClick={onNavigate}
        aria-label="KubeOpenCode, home"
      >
        <img src="/favicon.svg" alt="" width={22} height={22} />
        KubeOpenCode
      </NavLink>
      {NAVIGATION.map((group) => (
        <div key={group.title} className={styles.group}>
          <div className={styles.title}>{group.title}</div>
          {group.items.map(({ label, to, icon: Icon }) => (
            <NavLink
              key={to}
              to={{ pathname: to, search }}
              end={to === "/"}
              className={styles.link}
              onClick={onNavigate}
            >
              <Icon size={16} aria-hidden="true" />
              {label}
            </NavLink>
          ))}
        </div>
      ))}
      <div className={styles.version}>{info.data ? `Version ${info.data.version}` : "\u00a0"}</div>
    </nav>
  );
}
