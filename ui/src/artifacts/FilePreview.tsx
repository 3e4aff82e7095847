import { Download, FileQuestion, WrapText } from "lucide-react";
import { useState } from "react";
import { type ArtifactPlace, contentUrl, MAX_PREVIEW, type Preview, usePreview } from "../api/results";
import type { ArtifactFile } from "../api/types";
import { CodeView } from "../code/CodeView";
import { languageOf } from "../code/languages";
import { Button, buttonClass } from "../components/Button";
import { CopyButton } from "../components/CopyButton";
import { EmptyState } from "../components/EmptyState";
import { IconButton } from "../components/IconButton";
import { Loaded } from "../components/Loaded";
import { Markdown } from "../components/Markdown";
import { Segmented } from "../components/Segmented";
import { bytes } from "../lib/format";
import { usePreference } from "../lib/preference";
import styles from "./FilePreview.module.css";
import { relativeTo } from "./paths";

/** Larger images are loaded on request. */
const LARGE_IMAGE = 10 << 20;

/** The name of a file, and what the page can show of it. */
export function FilePreview({ place, file }: { place: ArtifactPlace; file: ArtifactFile }) {
  const [wrap, setWrap] = usePreference("preview.wrap", ["on", "off"], "on");
  const [look, setLook] = usePreference("preview.markdown", ["rendered", "source"], "rendered");
  const preview = usePreview(place, file);
  const isText = preview.data?.kind === "text";
  const isMarkdown = isText && languageOf(file.path) === "markdown";
  const rendered = isMarkdown && look === "rendered";
  return (
    <div className={styles.preview}>
      <div className={styles.head}>
        <h3 className={styles.name}>{file.name}</h3>
        <div className={styles.tools}>
          {file.size !== undefined && <span className="quiet">{bytes(file.size)}</span>}
          {file.executable && <span className="quiet">executable</span>}
          {file.digest && (
            <span className={styles.digest} title={`SHA-256 ${file.digest}`}>
              <code>{file.digest.slice(0, 12)}</code>
              <CopyButton text={file.digest} label="Copy the SHA-256" />
            </span>
          )}
          {isMarkdown && (
            <Segmented
              label="Look of the text"
              value={look}
              options={[
                { value: "rendered", label: "Rendered" },
                { value: "source", label: "Source" },
              ]}
              onValue={setLook}
            />
          )}
          {isText && !rendered && (
            <IconButton
              small
              label={wrap === "on" ? "Disable line wrap" : "Wrap lines"}
              aria-pressed={wrap === "on"}
              variant={wrap === "on" ? "default" : "plain"}
              icon={<WrapText size={15} />}
              onClick={() => setWrap(wrap === "on" ? "off" : "on")}
            />
          )}
          {file.kind === "file" && (
            <a
              className={buttonClass("plain", true, true)}
              href={contentUrl(place, file.path, true)}
              download={file.name.slice(file.name.lastIndexOf("/") + 1)}
              aria-label={`Download ${file.name}`}
              title={`Download ${file.name}`}
            >
              <Download size={15} />
            </a>
          )}
        </div>
      </div>
      <div className={styles.body}>
        {file.kind === "file" ? (
          <Loaded query={preview} label="the file">
            {(data) => <Content place={place} file={file} preview={data} wrap={wrap === "on"} rendered={rendered} />}
          </Loaded>
        ) : (
          <EmptyState small title={file.kind === "link" ? "A symbolic link" : "An empty directory"}>
            {file.target && `It leads to ${file.target}.`}
          </EmptyState>
        )}
      </div>
    </div>
  );
}

interface ContentProps {
  place: ArtifactPlace;
  file: ArtifactFile;
  preview: Preview;
  wrap: boolean;
  rendered: boolean;
}

function Content({ place, file, preview, wrap, rendered }: ContentProps) {
  const size = file.size ?? 0;
  const [wanted, setWanted] = useState(size <= LARGE_IMAGE);
  switch (preview.kind) {
    case "image":
      return wanted ? (
        <div className={styles.image}>
          <img src={contentUrl(place, file.path)} alt={file.name} />
        </div>
      ) : (
        <EmptyState small title="A large image" action={<Button onClick={() => setWanted(true)}>Show it</Button>}>
          {`It has ${bytes(size)}.`}
        </EmptyState>
      );
    case "binary":
      return (
        <EmptyState small title="No preview" icon={<FileQuestion size={20} />}>
          This file is neither text nor an image. Download it to open it.
        </EmptyState>
      );
    case "text":
      if (preview.text === "") return <EmptyState small title="An empty file" />;
      return (
        <>
          {preview.cut && (
            <p className={styles.cut}>
              The first {bytes(MAX_PREVIEW)} of {bytes(size)} are shown. Download the file to read all of it.
            </p>
          )}
          {rendered ? (
            // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrolling area must be reachable by keyboard.
            // biome-ignore lint/a11y/useSemanticElements: it is a scrolling area.
            <div className={styles.markdown} role="group" aria-label={`Content of ${file.name}`} tabIndex={0}>
              <Markdown
                text={preview.text}
                image={(src) => {
                  const path = relativeTo(file.path, src);
                  return path && contentUrl(place, path);
                }}
              />
            </div>
          ) : (
            <CodeView text={preview.text} path={file.path} wrap={wrap} label={`Content of ${file.name}`} />
          )}
        </>
      );
  }
}
