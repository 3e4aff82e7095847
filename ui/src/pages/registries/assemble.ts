import type { Registry } from "../../api/types";

export interface Choice {
  image: string[];
  skills: string[];
  plugins: string[];
}

/** The spec fields of the selected assets. */
export function assembled(registry: Registry, choice: Choice): Record<string, unknown> {
  const image = registry.images?.find((entry) => choice.image.includes(entry.name));
  const skills = (registry.skills ?? []).filter((entry) => choice.skills.includes(entry.name));
  const plugins = (registry.plugins ?? []).filter((entry) => choice.plugins.includes(entry.name));
  return {
    executorImage: image?.image,
    skills: skills.map(({ name, git }) => ({ name, git })),
    plugins: plugins.flatMap(({ plugin }) => (plugin ? [plugin] : [])),
  };
}
