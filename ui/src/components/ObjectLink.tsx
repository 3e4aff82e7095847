import { Link } from "react-router";
import { pageOf } from "../api/kinds";

export interface ObjectLinkProps {
  /** Unknown: there is no page to lead to. */
  kind?: string;
  namespace?: string;
  name: string;
  /** Says the kind too. */
  withKind?: boolean;
}

/** A link to an object's page, or just its name when the kind has none. */
export function ObjectLink({ kind, namespace, name, withKind }: ObjectLinkProps) {
  const to = kind && pageOf(kind, namespace, name);
  const text = withKind && kind ? `${kind} ${name}` : name;
  return to ? <Link to={to}>{text}</Link> : <span>{text}</span>;
}
