/** A subset of cron for the mock: five fields with lists, ranges, steps and `*`. */
function field(text: string, low: number, high: number): Set<number> | undefined {
  const found = new Set<number>();
  for (const part of text.split(",")) {
    const match = /^(\*|\d+(?:-\d+)?)(?:\/(\d+))?$/.exec(part);
    if (!match?.[1]) return undefined;
    const [from, to] = match[1] === "*" ? [low, high] : match[1].split("-").map(Number);
    const step = Number(match[2] ?? 1);
    const end = to ?? (match[2] ? high : from);
    if (from === undefined || end === undefined || from < low || end > high || step < 1) return undefined;
    for (let value = from; value <= end; value += step) found.add(value);
  }
  return found;
}

function offsetMinutes(zone: string, time: number): number {
  const text = new Intl.DateTimeFormat("en-US", { timeZone: zone, timeZoneName: "longOffset" }).format(time);
  const match = /GMT([+-])(\d\d):(\d\d)/.exec(text);
  if (!match) return 0;
  return (match[1] === "-" ? -1 : 1) * (Number(match[2]) * 60 + Number(match[3]));
}

export function upcoming(schedule: string, zone: string, count: number): { at: string; local: string }[] | undefined {
  const fields = schedule.trim().split(/\s+/);
  if (fields.length !== 5) return undefined;
  const [minutes, hours, days, months, weekdays] = [
    field(fields[0] ?? "", 0, 59),
    field(fields[1] ?? "", 0, 23),
    field(fields[2] ?? "", 1, 31),
    field(fields[3] ?? "", 1, 12),
    field((fields[4] ?? "").replace("7", "0"), 0, 6),
  ];
  if (!minutes || !hours || !days || !months || !weekdays) return undefined;
  const times: { at: string; local: string }[] = [];
  const hour = 3_600_000;
  const now = Date.now();
  for (let at = Math.floor(now / hour) * hour; times.length < count && at < now + 400 * 24 * hour; at += hour) {
    const offset = offsetMinutes(zone, at);
    const local = new Date(at + offset * 60_000);
    if (!hours.has(local.getUTCHours()) || !months.has(local.getUTCMonth() + 1)) continue;
    if (!days.has(local.getUTCDate()) || !weekdays.has(local.getUTCDay())) continue;
    const sign = offset < 0 ? "-" : "+";
    const zoneText = `${sign}${String(Math.floor(Math.abs(offset) / 60)).padStart(2, "0")}:${String(Math.abs(offset) % 60).padStart(2, "0")}`;
    for (const minute of [...minutes].sort((a, b) => a - b)) {
      const exact = at + minute * 60_000;
      if (exact <= now || times.length >= count) continue;
      times.push({
        at: new Date(exact).toISOString(),
        local: new Date(exact + offset * 60_000).toISOString().slice(0, 19) + zoneText,
      });
    }
  }
  return times;
}
