import { type FormEvent, useEffect, useState } from "react";
import { useLocation } from "react-router";
import { Button, buttonClass } from "../components/Button";
import { Command } from "../components/Command";
import { classes } from "../components/classes";
import { Field } from "../components/Field";
import { Problem } from "../components/Problem";
import surface from "../components/surface.module.css";
import { TextInput } from "../components/TextInput";
import styles from "./Login.module.css";
import { useInfo, useLogin } from "./session";

/** Where the server leads those whose login by an identity provider failed, with a word for why. */
export const LOGIN = "/login";

const PROBLEMS: Record<string, string> = {
  denied: "The sign-in was refused there. Sign in again, or as somebody else.",
  expired: "That took too long. Sign in again.",
  failed: "The sign-in service did not give a usable answer. Try again; the server's log says more.",
  refused: "You are signed in there, but that account has no name that can be used here.",
};

/** Shown in place of the page, so that after it a person is where they wanted to be. */
export function Login() {
  const [token, setToken] = useState("");
  const login = useLogin();
  const provider = useInfo().data?.authentication.oidc;
  const { pathname, search } = useLocation();
  const word = pathname === LOGIN ? new URLSearchParams(search).get("problem") : null;
  const next = pathname === LOGIN ? "/" : `${pathname}${search}`;
  useEffect(() => {
    document.title = "Sign in · KubeOpenCode";
  }, []);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (token.trim() !== "") login.mutate(token.trim());
  };
  return (
    <main className={styles.login}>
      <form className={classes(surface.window, styles.box)} onSubmit={submit} noValidate>
        <div className={styles.brand}>
          <img src="/favicon.svg" alt="" width={32} height={32} />
          <h1>Sign in to KubeOpenCode</h1>
        </div>
        {word !== null && <Problem error={PROBLEMS[word] ?? PROBLEMS.failed} />}
        {provider && (
          <>
            {/* The whole page goes there and comes back: no route of ours. */}
            <a className={buttonClass("primary")} href={`${provider.path}?next=${encodeURIComponent(next)}`}>
              Sign in with {provider.name}
            </a>
            <div className={styles.or}>or with a token</div>
          </>
        )}
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
        <Button
          type="submit"
          look={provider ? "default" : "primary"}
          busy={login.isPending}
          disabled={token.trim() === ""}
        >
          Sign in
        </Button>
        <div className={styles.hint}>
          <span>A token of a ServiceAccount, for example:</span>
          <Command text="kubectl create token my-account -n my-namespace" />
          <span>
            On one machine, <code>kubeopencode up</code> prints a link that signs you in.
          </span>
        </div>
      </form>
    </main>
  );
}
