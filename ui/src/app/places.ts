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
  type LucideIcon,
  Settings,
  Share2,
  Workflow,
} from "lucide-react";

export interface Place {
  label: string;
  to: string;
  icon: LucideIcon;
  /** Second key after `g`. */
  key: string;
}

/** Where a person can go, in the groups of the navigation. */
export const PLACES: { title: string; places: Place[] }[] = [
  {
    title: "Work",
    places: [
      { label: "Dashboard", to: "/", icon: Gauge, key: "d" },
      { label: "Tasks", to: "/tasks", icon: ListChecks, key: "t" },
      { label: "CronTasks", to: "/crontasks", icon: CalendarClock, key: "c" },
      { label: "Workflows", to: "/workflows", icon: Workflow, key: "w" },
    ],
  },
  {
    title: "Agents",
    places: [
      { label: "Agents", to: "/agents", icon: Bot, key: "a" },
      { label: "Templates", to: "/templates", icon: LayoutTemplate, key: "e" },
      { label: "Instructions", to: "/instructions", icon: FileText, key: "i" },
      { label: "Registries", to: "/registries", icon: Boxes, key: "r" },
    ],
  },
  {
    title: "Models and tools",
    places: [
      { label: "Models", to: "/models", icon: Brain, key: "m" },
      { label: "Providers", to: "/providers", icon: KeyRound, key: "p" },
      { label: "Tools", to: "/tools", icon: Cable, key: "o" },
    ],
  },
  {
    title: "Everything",
    places: [
      { label: "Graph", to: "/graph", icon: Share2, key: "g" },
      { label: "Configuration", to: "/config", icon: Settings, key: "s" },
    ],
  },
];
