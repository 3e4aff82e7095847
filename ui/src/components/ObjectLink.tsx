import { Link } from "react-router";
import { pageOf } from "../api/kinds";

export interface ObjectLinkProps {
  /** If unknown, only the name is shown. */
  kind?: string;
  namespace?: string;
  name: string;
  /** Whether to show the kind. */
  withKind?: boolean;
}

/** A link to the page of an object, or only its name if the kind has no page. */
export function ObjectLink({ kind, namespace, name, withKind }: ObjectLinkProps) {
  const to = kind && pageOf(kind, namespace, name);
  const text = withKind && kind ? `${kind} ${name}` : name;
  return to ? <Link to={to}>{text}</Link> : <span>{text}</span>;
}
