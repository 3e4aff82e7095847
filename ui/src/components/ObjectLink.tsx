import { Link } from "react-router";
import { pageOf } from "../api/kinds";

export interface ObjectLinkProps {
  kind: string;
  namespace?: string;
  name: string;
  /** Says the kind too. */
  withKind?: boolean;
}

/** A link to an object's page, or just its name when the kind has none. */
export function ObjectLink({ kind, namespace, name, withKind }: ObjectLinkProps) {
  const to = pageOf(kind, namespace, name);
  const text = withKind ? `${kind} ${name}` : name;
  return to ? <Link to={to}>{text}</Link> : <span>{text}</span>;
}
