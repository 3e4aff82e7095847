import { Monitor, Moon, Sun } from "lucide-react";
import { IconButton } from "../components/IconButton";
import { chooseTheme, type ThemeChoice, useThemeChoice } from "./theme";

const NEXT: Record<ThemeChoice, ThemeChoice> = { system: "light", light: "dark", dark: "system" };
const ICONS = { system: Monitor, light: Sun, dark: Moon };

export function ThemeSwitch() {
  const choice = useThemeChoice();
  const Icon = ICONS[choice];
  return (
    <IconButton
      label={`Theme: ${choice}. Switch to ${NEXT[choice]}`}
      icon={<Icon size={16} />}
      onClick={() => chooseTheme(NEXT[choice])}
    />
  );
}
