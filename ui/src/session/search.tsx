import type { SessionMessage, SessionPart } from "../api/types";

/** The texts of a part that are shown. */
export function textsOf(part: SessionPart): string[] {
  const { input = {}, output, error, metadata = {}, title } = part.state ?? {};
  const texts = [part.text, part.tool, title, output, error, metadata.output, ...Object.values(input), part.filename];
  return texts.filter((text) => typeof text === "string");
}

/** Whether a part contains the text, ignoring case. */
export function contains(part: SessionPart, search: string): boolean {
  const wanted = search.toLowerCase();
  return textsOf(part).some((text) => text.toLowerCase().includes(wanted));
}

/** The messages with the parts that contain the text. */
export function matching(messages: SessionMessage[], search: string): SessionMessage[] {
  if (search === "") return messages;
  return messages
    .map((message) => ({ ...message, parts: message.parts.filter((part) => contains(part, search)) }))
    .filter((message) => message.parts.length > 0);
}

/** A text with the matches of a search marked. */
export function Marked({ text, search }: { text: string; search: string }) {
  if (search === "") return text;
  const pieces = [];
  const [low, wanted] = [text.toLowerCase(), search.toLowerCase()];
  let end = 0;
  for (let at = low.indexOf(wanted); at >= 0; at = low.indexOf(wanted, end)) {
    pieces.push(text.slice(end, at), <mark key={at}>{text.slice(at, at + wanted.length)}</mark>);
    end = at + wanted.length;
  }
  return [...pieces, text.slice(end)];
}
