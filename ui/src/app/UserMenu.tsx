import { Keyboard, LogOut, User } from "lucide-react";
import { Menu } from "../components/Menu";
import { useLogout, useSession } from "./session";

export function UserMenu({ onHelp }: { onHelp: () => void }) {
  const session = useSession();
  const logout = useLogout();
  const me = session.data;
  const items = [{ label: "Keyboard shortcuts", icon: <Keyboard size={15} />, onSelect: onHelp }];
  if (me && me.via !== "anonymous") {
    items.push({ label: "Sign out", icon: <LogOut size={15} />, onSelect: () => logout.mutate() });
  }
  return <Menu titled label={me ? `Signed in as ${me.user}` : "Account"} icon={<User size={16} />} items={items} />;
}
