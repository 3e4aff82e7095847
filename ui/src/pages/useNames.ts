import { useParams } from "react-router";

/** Namespace and name from the URL of a detail page. */
export function useNames(): { namespace: string; name: string } {
  const { namespace = "", name = "" } = useParams();
  return { namespace, name };
}
