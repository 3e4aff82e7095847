import { Dialog } from "../components/Dialog";
import styles from "./KeyboardHelp.module.css";
import { NAVIGATION } from "./navigationItems";

const HERE: [string, string][] = [
  ["Go to a page or object", "Ctrl K"],
  ["Focus the filter", "/"],
  ["Next row", "j"],
  ["Previous row", "k"],
  ["Open the row", "Enter"],
  ["New Task", "n"],
  ["Next and previous match in a log", "n N"],
  ["Show this help", "?"],
];

function Keys({ keys }: { keys: string }) {
  return (
    <dd className={styles.keys}>
      {keys.split(" ").map((key) => (
        <kbd key={key}>{key}</kbd>
      ))}
    </dd>
  );
}

export function KeyboardHelp({ open, onClose }: { open: boolean; onClose: () => void }) {
  const items = NAVIGATION.flatMap((group) => group.items);
  return (
    <Dialog title="Keyboard shortcuts" open={open} onClose={onClose} wide>
      <div className={styles.columns}>
        <section>
          <h3>On a page</h3>
          <dl className={styles.list}>
            {HERE.map(([what, keys]) => (
              <div key={what} className={styles.item}>
                <dt>{what}</dt>
                <Keys keys={keys} />
              </div>
            ))}
          </dl>
        </section>
        <section>
          <h3>Go to</h3>
          <dl className={styles.list}>
            {items.map((item) => (
              <div key={item.to} className={styles.item}>
                <dt>{item.label}</dt>
                <Keys keys={`g ${item.key}`} />
              </div>
            ))}
          </dl>
        </section>
      </div>
    </Dialog>
  );
}
