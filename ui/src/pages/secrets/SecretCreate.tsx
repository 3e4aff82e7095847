import { type FormEvent, useState } from "react";
import { useNavigate } from "react-router";
import { pageOf } from "../../api/kinds";
import { useCreateSecret } from "../../api/secrets";
import { useNamespaces } from "../../app/NamespaceSelect";
import { Page } from "../../app/Page";
import { Button } from "../../components/Button";
import { Field } from "../../components/Field";
import { PageHeader } from "../../components/PageHeader";
import { Problem } from "../../components/Problem";
import { Select } from "../../components/Select";
import { SkeletonBlock } from "../../components/SkeletonBlock";
import { Stack } from "../../components/Stack";
import { TextInput } from "../../components/TextInput";
import { toast } from "../../components/toast";
import { FieldPair } from "../../forms/FieldPair";
import { FormSection } from "../../forms/FormSection";
import { useFormDefaults } from "../../forms/formDefaults";
import { NO_PROBLEMS, type Problems, problemsOf } from "../../lib/fields";
import { checkValues, dataOf, newValue, SecretValues } from "./SecretValues";

export default function SecretCreate() {
  const defaults = useFormDefaults();
  return (
    <Page>
      <PageHeader
        title="New Secret"
        crumbs={[{ label: "Secrets", to: "/secrets" }]}
        sub="Keys and tokens for Agents, providers and tools."
      />
      {defaults ? <Form initial={defaults.namespace} /> : <SkeletonBlock lines={6} label="Loading the form" />}
    </Page>
  );
}

/** No YAML beside it: the values must not be readable on the screen. */
function Form({ initial }: { initial: string }) {
  const navigate = useNavigate();
  const known = useNamespaces();
  const create = useCreateSecret();
  const [namespace, setNamespace] = useState(initial);
  const [name, setName] = useState("");
  const [values, setValues] = useState(() => [newValue("api-key")]);
  const [problems, setProblems] = useState<Problems>(NO_PROBLEMS);
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    const byField = { ...(name.trim() === "" ? { name: "Name is required." } : {}), ...checkValues(values) };
    setProblems({ byField, other: [] });
    if (Object.keys(byField).length > 0) return;
    try {
      const secret = await create.mutateAsync({ namespace, secret: { name: name.trim(), data: dataOf(values) } });
      toast.done(`Secret ${secret.name} created.`);
      navigate(pageOf("Secret", namespace, secret.name) ?? "/secrets");
    } catch (error) {
      setProblems(problemsOf(error, ["name"]));
    }
  };
  return (
    <form onSubmit={submit} noValidate>
      <Stack>
        <FormSection title="Namespace and name">
          <FieldPair>
            <Field label="Namespace" required>
              {(parts) => (
                <Select
                  {...parts}
                  value={namespace}
                  onValue={setNamespace}
                  options={known.includes(namespace) ? known : [namespace, ...known]}
                />
              )}
            </Field>
            <Field label="Name" required problem={problems.byField.name} hint="Lowercase letters, digits and hyphens.">
              {(parts) => <TextInput {...parts} value={name} placeholder="github-token" onValue={setName} />}
            </Field>
          </FieldPair>
        </FormSection>
        <FormSection title="Values">
          <SecretValues values={values} onValues={setValues} problems={problems.byField} />
        </FormSection>
        {problems.other.map((message) => (
          <Problem key={message} error={message} />
        ))}
        <Stack row gap={2}>
          <Button type="submit" variant="primary" busy={create.isPending}>
            Create Secret
          </Button>
        </Stack>
      </Stack>
    </form>
  );
}
