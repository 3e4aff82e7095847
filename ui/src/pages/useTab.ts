import { useAddress } from "../app/address";

/** The chosen tab, kept in the address. */
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
