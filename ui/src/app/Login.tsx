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

/** Target of the redirect after a failed login by an identity provider; `?problem=` contains the cause. */
export const LOGIN = "/login";

const PROBLEMS: Record<string, string> = {
  denied: "The identity provider denied the sign-in. Try again or use another account.",
  expired: "The sign-in timed out. Try again.",
  failed: "The identity provider returned an invalid response. Try again, or see the server log.",
  refused: "Your account at the identity provider has no usable user name.",
};

/** Shown in place of the page, so that the address is kept. */
export function Login() {
  const [token, setToken] = useState("");
  const login = useLogin();
  const provider = useInfo().data?.authentication.oidc;
  const { pathname, search } = useLocation();
  const query = new URLSearchParams(pathname === LOGIN ? search : "");
  const problem = query.get("problem");
  // The server signs in by a valid link at once: this one is not.
  const staleLink = query.has("code");
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
        {problem !== null && <Problem error={PROBLEMS[problem] ?? PROBLEMS.failed} />}
        {staleLink && (
          <div role="alert" className={styles.hint}>
            <span>This sign-in link was already used or has expired. Get a new one on the machine that runs it:</span>
            <Command text="kubeopencode login --open" />
          </div>
        )}
        {provider && (
          <>
            {/* A full page load: not a route of the page. */}
            <a className={buttonClass("primary")} href={`${provider.path}?next=${encodeURIComponent(next)}`}>
              Sign in with {provider.name}
            </a>
            <div className={styles.or}>or with a token</div>
          </>
        )}
        <Field label="Token" required hint="Your permissions in the cluster apply.">
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
          variant={provider ? "default" : "primary"}
          busy={login.isPending}
          disabled={token.trim() === ""}
        >
          Sign in
        </Button>
        <div className={styles.hint}>
          <span>A ServiceAccount token, for example:</span>
          <Command text="kubectl create token my-account -n my-namespace" />
          {!staleLink && (
            <span>
              On one machine, <code>kubeopencode login --open</code> signs you in.
            </span>
          )}
        </div>
      </form>
    </main>
  );
}
