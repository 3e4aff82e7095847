import { REGISTRY } from "../../api/kinds";
import { YamlCreate } from "../kinds/YamlCreate";

const SPEC = {
  checkInterval: "10m",
  images: [
    {
      name: "dev",
      image: "quay.io/kubeopencode/executor-default:latest",
      metadata: { description: "General development" },
    },
  ],
  skills: [],
  plugins: [],
};

export default function RegistryCreate() {
  return <YamlCreate kind={REGISTRY} spec={SPEC} />;
}
