import { Dialog } from "../components/Dialog";
import styles from "./KeyboardHelp.module.css";
import { PLACES } from "./places";

const HERE: [string, string][] = [
  ["Put the cursor into the filter", "/"],
  ["Next row", "j"],
  ["Previous row", "k"],
  ["Open the row", "Enter"],
  ["New Task", "n"],
  ["This help", "?"],
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
  const places = PLACES.flatMap((group) => group.places);
  return (
    <Dialog title="Keys" open={open} onClose={onClose} wide>
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
            {places.map((place) => (
              <div key={place.to} className={styles.item}>
                <dt>{place.label}</dt>
                <Keys keys={`g ${place.key}`} />
              </div>
            ))}
          </dl>
        </section>
      </div>
    </Dialog>
  );
}
