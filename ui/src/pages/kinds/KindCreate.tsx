import { useParams } from "react-router";
import { kindOfPlural } from "../../api/kinds";
import { KIND_FORMS } from "../../forms/kindForms";
import { NotFound } from "../NotFound";
import { STARTS } from "./exampleSpecs";
import { FormCreate } from "./FormCreate";
import { YamlCreate } from "./YamlCreate";

export default function KindCreate() {
  const { plural = "" } = useParams();
  const kind = kindOfPlural(plural);
  if (!kind?.generic) return <NotFound />;
  const form = KIND_FORMS[kind.kind];
  if (form) return <FormCreate key={kind.kind} kind={kind} form={form} />;
  return <YamlCreate key={kind.kind} kind={kind} spec={STARTS[kind.kind] ?? {}} />;
}
