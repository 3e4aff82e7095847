import { Plus, Trash2 } from "lucide-react";
import type { Skill } from "../api/types";
import { Button } from "../components/Button";
import { Field } from "../components/Field";
import { IconButton } from "../components/IconButton";
import { Problem } from "../components/Problem";
import { TextInput } from "../components/TextInput";
import styles from "./ContextsField.module.css";
import { FieldPair } from "./FieldPair";
import { type Manifest, type Path, valueAt } from "./manifest";

const AT: Path = ["spec", "skills"];

/** Skills from Git repositories. */
export function SkillsField({ manifest, problem }: { manifest: Manifest; problem?: string }) {
  const value = valueAt(manifest.object, AT);
  const skills = Array.isArray(value) ? (value as Skill[]) : [];
  return (
    <div className={styles.list}>
      {problem && <Problem error={problem} />}
      {skills.map((skill, i) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: the name may still be empty.
        // biome-ignore lint/a11y/useSemanticElements: fieldsets are the sections around it.
        <div key={i} className={styles.item} role="group" aria-label={`Skill ${i + 1}`}>
          <div className={styles.head}>
            <h3>{skill.name || "New skill"}</h3>
            <IconButton
              small
              label={`Remove skill ${i + 1}`}
              icon={<Trash2 size={14} />}
              onClick={() => manifest.set([...AT, i], undefined)}
            />
          </div>
          <FieldPair>
            <Field label="Name" required>
              {(parts) => (
                <TextInput
                  {...parts}
                  value={skill.name ?? ""}
                  onValue={(next) => manifest.set([...AT, i, "name"], next)}
                />
              )}
            </Field>
            <Field label="Repository" required>
              {(parts) => (
                <TextInput
                  {...parts}
                  value={skill.git?.repository ?? ""}
                  onValue={(next) => manifest.set([...AT, i, "git", "repository"], next)}
                />
              )}
            </Field>
            <Field label="Ref">
              {(parts) => (
                <TextInput
                  {...parts}
                  value={skill.git?.ref ?? ""}
                  onValue={(next) => manifest.set([...AT, i, "git", "ref"], next)}
                />
              )}
            </Field>
            <Field label="Path">
              {(parts) => (
                <TextInput
                  {...parts}
                  value={skill.git?.path ?? ""}
                  onValue={(next) => manifest.set([...AT, i, "git", "path"], next)}
                />
              )}
            </Field>
          </FieldPair>
        </div>
      ))}
      <div className={styles.add}>
        <Button
          small
          icon={<Plus size={13} />}
          onClick={() => manifest.set([...AT, skills.length], { name: `skill-${skills.length + 1}`, git: {} })}
        >
          Add a skill
        </Button>
      </div>
    </div>
  );
}
