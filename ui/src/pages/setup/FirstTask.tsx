import { CircleCheck, Play } from "lucide-react";
import { type FormEvent, useState } from "react";
import { useNavigate } from "react-router";
import { pageOf, TASK } from "../../api/kinds";
import { useCreate } from "../../api/objects";
import type { SetupResponse, Task } from "../../api/types";
import { Button } from "../../components/Button";
import { Command } from "../../components/Command";
import { classes } from "../../components/classes";
import { Field } from "../../components/Field";
import { LinkButton } from "../../components/LinkButton";
import { ObjectLink } from "../../components/ObjectLink";
import { Problem } from "../../components/Problem";
import surface from "../../components/surface.module.css";
import { TextArea } from "../../components/TextArea";
import styles from "./Setup.module.css";

const FIRST_TASK = "Say hello and describe in one sentence what you can do.";

/** The last step: what was saved, and a first Task on the new template. */
export function FirstTask({ namespace, saved }: { namespace: string; saved: SetupResponse }) {
  const navigate = useNavigate();
  const create = useCreate<Task>(TASK);
  const [description, setDescription] = useState(FIRST_TASK);
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    create.mutate(
      { namespace, json: { description, templateRef: { name: saved.template } } },
      { onSuccess: (task) => navigate(pageOf("Task", namespace, task.name) ?? TASK.list) },
    );
  };
  return (
    <form onSubmit={submit} className={styles.form} noValidate>
      <div className={classes(surface.raised, styles.panel)}>
        <h2>Run a first Task</h2>
        <div className={styles.works} role="status">
          <CircleCheck size={15} aria-hidden="true" />
          The model is ready. Saved in namespace {namespace}:
        </div>
        <ul className={styles.saved}>
          {saved.objects.map((object) => (
            <li key={`${object.kind}/${object.name}`}>
              <span className="quiet">{object.kind}</span>
              <ObjectLink kind={object.kind} namespace={namespace} name={object.name} />
            </li>
          ))}
        </ul>
        <Field label="Description" required hint="What the agent does first. It runs in a Pod of its own.">
          {(parts) => <TextArea {...parts} value={description} onValue={setDescription} />}
        </Field>
        {create.error ? <Problem error={create.error} /> : null}
        <div className={styles.twin}>
          <span className="quiet">The same from a terminal:</span>
          <Command text={`kubeopencode run -n ${namespace} -t ${saved.template} "${FIRST_TASK}"`} />
        </div>
      </div>
      <div className={styles.foot}>
        <Button
          type="submit"
          variant="primary"
          icon={<Play size={15} />}
          busy={create.isPending}
          disabled={description.trim() === ""}
        >
          Run Task
        </Button>
        <LinkButton variant="plain" to="/">
          Go to the dashboard
        </LinkButton>
      </div>
    </form>
  );
}
