import { Sparkles, X } from "lucide-react";
import { useState } from "react";
import { MODEL_PROVIDER } from "../api/kinds";
import { useChoices } from "../api/objects";
import { useMaySetUp } from "../api/setup";
import type { GenericObject } from "../api/types";
import { classes } from "../components/classes";
import { IconButton } from "../components/IconButton";
import { LinkButton } from "../components/LinkButton";
import surface from "../components/surface.module.css";
import { useNamespaces } from "./NamespaceSelect";
import { useNamespace } from "./namespace";
import styles from "./SetupOffer.module.css";

const DISMISSED = "kubeopencode.setup.dismissed";

function wasDismissed(): boolean {
  try {
    return localStorage.getItem(DISMISSED) === "true";
  } catch {
    return false;
  }
}

/** Offers the guided setup on the dashboard while there is no model provider, to users who may create one. */
export function SetupOffer() {
  const [dismissed, setDismissed] = useState(wasDismissed);
  const [chosen] = useNamespace();
  const known = useNamespaces();
  const namespace = chosen || (known.includes("default") ? "default" : (known[0] ?? ""));
  const providers = useChoices<GenericObject>(MODEL_PROVIDER, "", !dismissed);
  const none = providers.data?.length === 0;
  const allowed = useMaySetUp(namespace, none && !dismissed);
  if (dismissed || !none || !allowed) return null;
  const dismiss = () => {
    setDismissed(true);
    try {
      localStorage.setItem(DISMISSED, "true");
    } catch {
      // Storage is disabled: the offer appears again with the next load.
    }
  };
  return (
    <section className={classes(surface.raised, styles.offer)} aria-labelledby="setup-offer">
      <Sparkles size={22} aria-hidden="true" className={styles.icon} />
      <div className={styles.text}>
        <h2 id="setup-offer">Set up your first model</h2>
        <p>Choose Anthropic, OpenAI, Google, Ollama or a compatible server, paste a key and run a first Task.</p>
      </div>
      <LinkButton variant="primary" to="/setup">
        Set up a model
      </LinkButton>
      <IconButton label="Dismiss" icon={<X size={15} />} onClick={dismiss} />
    </section>
  );
}
