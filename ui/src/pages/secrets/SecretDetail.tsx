import { Trash2 } from "lucide-react";
import { type FormEvent, useState } from "react";
import { useNavigate } from "react-router";
import { useChangeSecret, useDeleteSecret, useSecret } from "../../api/secrets";
import type { Secret } from "../../api/types";
import { Page } from "../../app/Page";
import { Button } from "../../components/Button";
import { ConfirmDialog } from "../../components/ConfirmDialog";
import { Loaded } from "../../components/Loaded";
import { PageHeader } from "../../components/PageHeader";
import { Problem } from "../../components/Problem";
import { SimpleTable } from "../../components/SimpleTable";
import { Stack } from "../../components/Stack";
import { toast } from "../../components/toast";
import { FormSection } from "../../forms/FormSection";
import { useNames } from "../useNames";
import { checkValues, dataOf, type NewValue, newValue, SecretValues } from "./SecretValues";

/** The keys of a Secret; values can be replaced and removed, never read. */
export default function SecretDetail() {
  const { namespace, name } = useNames();
  const secret = useSecret(namespace, name);
  const remove = useDeleteSecret(namespace, name);
  const navigate = useNavigate();
  const [deleting, setDeleting] = useState(false);
  return (
    <Page>
      <PageHeader
        title={name}
        crumbs={[{ label: "Secrets", to: "/secrets" }, { label: namespace }]}
        sub="Values can be replaced and are never shown."
        actions={
          <Button variant="danger" icon={<Trash2 size={15} />} onClick={() => setDeleting(true)}>
            Delete
          </Button>
        }
      />
      <Loaded query={secret} label="the Secret">
        {(loaded) => <Values key={loaded.resourceVersion} secret={loaded} />}
      </Loaded>
      <ConfirmDialog
        title={`Delete Secret ${name}?`}
        open={deleting}
        confirm="Delete Secret"
        danger
        busy={remove.isPending}
        error={remove.error}
        onClose={() => setDeleting(false)}
        onConfirm={() =>
          remove.mutate(undefined, {
            onSuccess: () => {
              toast.done(`Secret ${name} deleted.`);
              navigate("/secrets");
            },
          })
        }
      >
        This cannot be undone. Agents, providers and tools that use it stop working.
      </ConfirmDialog>
    </Page>
  );
}

function Values({ secret }: { secret: Secret }) {
  const { namespace, name, keys, immutable } = secret;
  const change = useChangeSecret(namespace, name);
  const [values, setValues] = useState<NewValue[]>([]);
  const [removed, setRemoved] = useState<string[]>([]);
  const [problems, setProblems] = useState<Record<string, string>>({});
  const submit = (event: FormEvent) => {
    event.preventDefault();
    const found = checkValues(values);
    setProblems(found);
    if (Object.keys(found).length > 0) return;
    change.mutate(
      { data: dataOf(values), remove: removed },
      {
        onSuccess: () => {
          toast.done(`Secret ${name} saved.`);
          // The values are not needed any more.
          setValues([]);
          setRemoved([]);
        },
      },
    );
  };
  return (
    <form onSubmit={submit} noValidate>
      <Stack>
        <FormSection title="Keys">
          <SimpleTable
            label="Keys"
            head={["Key", "Value", "Change"]}
            rows={keys.map((key) => ({
              key,
              cells: [
                <code key="key">{key}</code>,
                <span key="value" className="quiet">
                  {removed.includes(key) ? "removed on save" : "hidden"}
                </span>,
                immutable ? null : (
                  <Stack key="actions" row gap={2}>
                    <Button small onClick={() => setValues([...values, newValue(key)])}>
                      Replace
                    </Button>
                    <Button
                      small
                      aria-pressed={removed.includes(key)}
                      onClick={() =>
                        setRemoved(removed.includes(key) ? removed.filter((one) => one !== key) : [...removed, key])
                      }
                    >
                      Remove
                    </Button>
                  </Stack>
                ),
              ],
            }))}
          />
        </FormSection>
        {!immutable && (
          <FormSection title="New values">
            <SecretValues values={values} onValues={setValues} problems={problems} />
          </FormSection>
        )}
        {change.error ? <Problem error={change.error} /> : null}
        {values.length + removed.length > 0 && (
          <Stack row gap={2}>
            <Button type="submit" variant="primary" busy={change.isPending}>
              Save
            </Button>
          </Stack>
        )}
      </Stack>
    </form>
  );
}
