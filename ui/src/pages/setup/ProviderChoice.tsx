import { ArrowRight } from "lucide-react";
import type { FormEvent } from "react";
import { Button } from "../../components/Button";
import { classes } from "../../components/classes";
import surface from "../../components/surface.module.css";
import { PROVIDERS, type ProviderInfo } from "./providers";
import styles from "./Setup.module.css";

export interface ProviderChoiceProps {
  value: ProviderInfo;
  onValue: (provider: ProviderInfo) => void;
  onContinue: () => void;
}

/** The first step: who serves the model. */
export function ProviderChoice({ value, onValue, onContinue }: ProviderChoiceProps) {
  const submit = (event: FormEvent) => {
    event.preventDefault();
    onContinue();
  };
  return (
    <form onSubmit={submit} className={styles.form}>
      <fieldset className={styles.cards}>
        <legend>Who serves your model?</legend>
        {PROVIDERS.map((provider) => (
          <label key={provider.id} className={classes(surface.raised, styles.card)}>
            <input
              type="radio"
              name="provider"
              value={provider.id}
              checked={provider.id === value.id}
              onChange={() => onValue(provider)}
            />
            <span>
              <strong>{provider.title}</strong>
              <span className={styles.about}>{provider.about}</span>
            </span>
          </label>
        ))}
      </fieldset>
      <div className={styles.foot}>
        <Button type="submit" variant="primary" icon={<ArrowRight size={15} />}>
          Continue with {value.title}
        </Button>
      </div>
    </form>
  );
}
