import { useParams } from "react-router";
import { kindOfPlural } from "../../api/kinds";
import { NotFound } from "../NotFound";
import { STARTS } from "./exampleSpecs";
import { YamlCreate } from "./YamlCreate";

export default function KindCreate() {
  const { plural = "" } = useParams();
  const kind = kindOfPlural(plural);
  if (!kind?.generic) return <NotFound />;
  return <YamlCreate key={kind.kind} kind={kind} spec={STARTS[kind.kind] ?? {}} />;
}
