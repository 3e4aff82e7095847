/** The reader's own zone. */
export function ownZone(): string {
  return Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";
}

/** Every zone to choose from: the likely ones first. */
export function zoneChoices(...likely: (string | undefined)[]): string[] {
  const first = [...likely, "UTC", ownZone()].filter((zone): zone is string => Boolean(zone));
  return [...new Set([...first, ...Intl.supportedValuesOf("timeZone")])];
}
