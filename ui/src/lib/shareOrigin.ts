/**
 * Origin of share links. On one machine the host of the page is a secret of its owner, and links work at the address of
 * the machine too.
 */
export function shareOrigin({ hostname, port, origin }: Pick<Location, "hostname" | "port" | "origin">): string {
  return hostname.endsWith(".localhost") ? `http://127.0.0.1:${port}` : origin;
}
