import { Keyboard, LogOut, User } from "lucide-react";
import { Menu } from "../components/Menu";
import { useLogout, useSession } from "./session";

/** The signed-in user, with help and sign-out. */
export function UserMenu({ onHelp }: { onHelp: () => void }) {
  const session = useSession();
  const logout = useLogout();
  const me = session.data;
  const items = [{ label: "Keyboard shortcuts", icon: <Keyboard size={15} />, onSelect: onHelp }];
  if (me && me.via !== "anonymous") {
    items.push({ label: "Sign out", icon: <LogOut size={15} />, onSelect: () => logout.mutate() });
  }
  const label = !me ? "Account" : me.via === "anonymous" ? "Not signed in" : `Signed in as ${me.user}`;
  const text = !me || me.via === "anonymous" ? label : me.user;
  return <Menu titled label={label} text={text} icon={<User size={16} />} items={items} />;
}
