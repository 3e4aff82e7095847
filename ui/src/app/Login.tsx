import { type FormEvent, useEffect, useState } from "react";
import { Button } from "../components/Button";
import { Command } from "../components/Command";
import { Field } from "../components/Field";
import { Problem } from "../components/Problem";
import { TextInput } from "../components/TextInput";
import styles from "./Login.module.css";
import { useLogin } from "./session";

/** Takes a token of the cluster. Shown in place, so that after it a person is where they wanted to be. */
export function Login() {
  const [token, setToken] = useState("");
  const login = useLogin();
  useEffect(() => {
    document.title = "Sign in · KubeOpenCode";
  }, []);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (token.trim() !== "") login.mutate(token.trim());
  };
  return (
    <main className={styles.login}>
      <form className={styles.box} onSubmit={submit} noValidate>
        <div className={styles.brand}>
          <img src="/favicon.svg" alt="" width={32} height={32} />
          <h1>Sign in to KubeOpenCode</h1>
        </div>
        <Field label="Token" required hint="Your rights in the cluster are your rights here.">
          {(parts) => (
            <TextInput
              {...parts}
              type="password"
              name="token"
              autoComplete="current-password"
              autoFocus
              value={token}
              onValue={setToken}
            />
          )}
        </Field>
        {login.error ? <Problem error={login.error} /> : null}
        <Button type="submit" look="primary" busy={login.isPending} disabled={token.trim() === ""}>
          Sign in
        </Button>
        <div className={styles.hint}>
          <span>A token of a ServiceAccount, for example:</span>
          <Command text="kubectl create token my-account -n my-namespace" />
          <span>On one machine, `kubeopencode up` prints a link that signs you in.</span>
        </div>
      </form>
    </main>
  );
}
