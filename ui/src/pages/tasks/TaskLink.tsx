import { Link } from "react-router";
import { pageOf, TASK } from "../../api/kinds";
import type { Task } from "../../api/types";
import styles from "./TaskLink.module.css";

/** A link to a Task: its title, and below it its namespace, name and author. */
export function TaskLink({ task }: { task: Task }) {
  const { namespace, name, title = name, createdBy } = task;
  const below = [`${namespace}/${name}`, ...(createdBy ? [createdBy] : [])].join(" · ");
  return (
    <span className={styles.task}>
      <Link to={pageOf("Task", namespace, name) ?? TASK.list} className={styles.title} title={title}>
        {title}
      </Link>
      <span className={styles.name} title={below}>
        {below}
      </span>
    </span>
  );
}
