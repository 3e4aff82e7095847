import { useSearchParams } from "react-router";

/** The chosen tab, kept in the address. */
export function useTab(first: string): [string, (tab: string) => void] {
  const [params, setParams] = useSearchParams();
  return [
    params.get("tab") ?? first,
    (tab) =>
      setParams(
        (current) => {
          const next = new URLSearchParams(current);
          if (tab === first) next.delete("tab");
          else next.set("tab", tab);
          return next;
        },
        { replace: true },
      ),
  ];
}
