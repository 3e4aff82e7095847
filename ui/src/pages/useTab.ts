import { useAddress } from "../app/address";

/** The selected tab, kept in the URL. */
export function useTab(first: string): [string, (tab: string) => void] {
  const [params, change] = useAddress();
  return [
    params.get("tab") ?? first,
    (tab) =>
      change((next) => {
        if (tab === first) next.delete("tab");
        else next.set("tab", tab);
      }),
  ];
}
