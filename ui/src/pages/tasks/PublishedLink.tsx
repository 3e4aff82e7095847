import { ExternalLink, GitBranch } from "lucide-react";
import type { Published } from "../../api/types";
import { CopyButton } from "../../components/CopyButton";
import { safeHref } from "../../lib/markdown";
import styles from "./PublishedLink.module.css";

/** The branch, the commit and the pull request to which the changes of a run were published. */
export function PublishedLink({ published: { branch, commit, url } }: { published: Published }) {
  const href = url && safeHref(url);
  return (
    <span className={styles.published}>
      {branch && (
        <span className={styles.branch}>
          <GitBranch size={14} aria-hidden="true" />
          <code>{branch}</code>
          <CopyButton text={branch} label="Copy the branch" />
        </span>
      )}
      {commit && (
        <span className={styles.branch}>
          at <code title={commit}>{commit.slice(0, 10)}</code>
          <CopyButton text={commit} label="Copy the commit" />
        </span>
      )}
      {href && (
        <a href={href} target="_blank" rel="noopener noreferrer" className={styles.branch} title={href}>
          {requestName(href)}
          <ExternalLink size={13} aria-hidden="true" />
        </a>
      )}
    </span>
  );
}

/** `Pull request #12`, as the server calls it. */
function requestName(url: string): string {
  const number = /\/(\d+)\/?$/.exec(url)?.[1];
  const name = url.includes("/merge_requests/") ? "Merge request" : "Pull request";
  return number ? `${name} ${name.startsWith("M") ? "!" : "#"}${number}` : name;
}
