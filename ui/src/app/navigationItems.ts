import {
  Bot,
  Boxes,
  Brain,
  Cable,
  CalendarClock,
  FileText,
  Gauge,
  KeyRound,
  LayoutTemplate,
  ListChecks,
  Lock,
  type LucideIcon,
  Settings,
  Share2,
  Workflow,
} from "lucide-react";

export interface NavigationItem {
  label: string;
  to: string;
  icon: LucideIcon;
  /** Second key after `g`. */
  key: string;
}

/** The groups and links of the navigation. */
export const NAVIGATION: { title: string; items: NavigationItem[] }[] = [
  {
    title: "Work",
    items: [
      { label: "Dashboard", to: "/", icon: Gauge, key: "d" },
      { label: "Tasks", to: "/tasks", icon: ListChecks, key: "t" },
      { label: "CronTasks", to: "/crontasks", icon: CalendarClock, key: "c" },
      { label: "Workflows", to: "/workflows", icon: Workflow, key: "w" },
    ],
  },
  {
    title: "Agents",
    items: [
      { label: "Agents", to: "/agents", icon: Bot, key: "a" },
      { label: "Templates", to: "/templates", icon: LayoutTemplate, key: "e" },
      { label: "Instructions", to: "/instructions", icon: FileText, key: "i" },
      { label: "Registries", to: "/registries", icon: Boxes, key: "r" },
    ],
  },
  {
    title: "Models and tools",
    items: [
      { label: "Models", to: "/models", icon: Brain, key: "m" },
      { label: "Providers", to: "/providers", icon: KeyRound, key: "p" },
      { label: "Tools", to: "/tools", icon: Cable, key: "o" },
      { label: "Secrets", to: "/secrets", icon: Lock, key: "k" },
    ],
  },
  {
    title: "System",
    items: [
      { label: "Graph", to: "/graph", icon: Share2, key: "g" },
      { label: "Configuration", to: "/config", icon: Settings, key: "s" },
    ],
  },
];
