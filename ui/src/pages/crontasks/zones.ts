/** The local time zone. */
export function ownZone(): string {
  return Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";
}

/** All time zones, with the most likely first. */
export function zoneChoices(...likely: (string | undefined)[]): string[] {
  const first = [...likely, "UTC", ownZone()].filter((zone): zone is string => Boolean(zone));
  return [...new Set([...first, ...Intl.supportedValuesOf("timeZone")])];
}
