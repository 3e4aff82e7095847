import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useEffect } from "react";
import { call, setCsrfToken, setUnauthorizedHandler } from "../api/client";
import { keys } from "../api/keys";
import type { Info, WhoAmI } from "../api/types";

/** The current user. Error 401: not signed in. */
export function useSession() {
  return useQuery({
    queryKey: keys.whoami,
    queryFn: async ({ signal }) => {
      const me = await call<WhoAmI>("/whoami", { signal });
      // Set here and not in an effect: the first write may follow the response immediately.
      setCsrfToken(me.csrfToken);
      return me;
    },
    retry: false,
    staleTime: Number.POSITIVE_INFINITY,
  });
}

/** Shows the login at the same URL when the session ends while the page is open. Used once. */
export function useLoginWhenEnded(): void {
  const cache = useQueryClient();
  useEffect(() => {
    setUnauthorizedHandler(() => {
      // Fetch the user again; error 401 then shows the login.
      if (cache.getQueryState(keys.whoami)?.status === "success") {
        void cache.resetQueries({ queryKey: keys.whoami });
      }
    });
    return () => setUnauthorizedHandler(() => {});
  }, [cache]);
}

export function useInfo() {
  return useQuery({
    queryKey: keys.info,
    queryFn: ({ signal }) => call<Info>("/info", { signal }),
    staleTime: Number.POSITIVE_INFINITY,
  });
}

export function useLogin() {
  const cache = useQueryClient();
  return useMutation({
    mutationFn: (token: string) => call<WhoAmI>("/login", { method: "POST", json: { token } }),
    onSuccess: (me) => {
      setCsrfToken(me.csrfToken);
      cache.setQueryData(keys.whoami, me);
    },
  });
}

export function useLogout() {
  const cache = useQueryClient();
  return useMutation({
    mutationFn: () => call<void>("/logout", { method: "POST" }),
    onSettled: () => {
      setCsrfToken(undefined);
      cache.clear();
      window.location.assign("/");
    },
  });
}
