import { useEffect, useRef, useState } from "react";
import type { SetupResponse } from "../../api/types";
import { Page } from "../../app/Page";
import { LinkButton } from "../../components/LinkButton";
import { PageHeader } from "../../components/PageHeader";
import { SkeletonBlock } from "../../components/SkeletonBlock";
import { useFormDefaults } from "../../forms/formDefaults";
import { ConnectionForm } from "./ConnectionForm";
import { FirstTask } from "./FirstTask";
import { ProviderChoice } from "./ProviderChoice";
import { PROVIDERS, type ProviderInfo } from "./providers";
import styles from "./Setup.module.css";
import { Steps } from "./Steps";

const TITLES = ["Provider", "Connection and model", "First Task"];

/** The guided setup of a model: choose a provider, test the key, save, run a first Task. */
export default function SetupPage() {
  const defaults = useFormDefaults();
  return (
    <Page>
      <div className={styles.page}>
        <PageHeader
          title="Set up a model"
          sub="Choose a provider, paste a key, run a first Task."
          actions={
            <LinkButton variant="plain" to="/">
              Skip for now
            </LinkButton>
          }
        />
        {defaults ? <Wizard namespace={defaults.namespace} /> : <SkeletonBlock lines={8} label="Loading the setup" />}
      </div>
    </Page>
  );
}

interface Saved {
  namespace: string;
  answer: SetupResponse;
}

function Wizard({ namespace }: { namespace: string }) {
  const [provider, setProvider] = useState<ProviderInfo>(PROVIDERS[0] as ProviderInfo);
  const [step, setStep] = useState(0);
  const [saved, setSaved] = useState<Saved>();
  const body = useRef<HTMLDivElement>(null);
  const shown = useRef(step);
  useEffect(() => {
    if (shown.current === step) return;
    shown.current = step;
    // Keyboard and screen reader users continue at the new step.
    body.current?.focus();
  }, [step]);
  return (
    <>
      <Steps titles={TITLES} current={step} onBack={saved ? undefined : setStep} />
      <section ref={body} tabIndex={-1} className={styles.body} aria-label={TITLES[step]}>
        {step === 0 && <ProviderChoice value={provider} onValue={setProvider} onContinue={() => setStep(1)} />}
        {step === 1 && (
          <ConnectionForm
            key={provider.id}
            provider={provider}
            namespace={namespace}
            onBack={() => setStep(0)}
            onSaved={(at, answer) => {
              setSaved({ namespace: at, answer });
              setStep(2);
            }}
          />
        )}
        {step === 2 && saved && <FirstTask namespace={saved.namespace} saved={saved.answer} />}
      </section>
    </>
  );
}
