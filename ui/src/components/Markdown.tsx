import { type ReactNode, useMemo } from "react";
import { Code } from "../code/Code";
import { languageNamed } from "../code/languages";
import { useHighlighted } from "../code/useHighlighted";
import { type Block, type Inline, parseMarkdown, safeHref } from "../lib/markdown";
import styles from "./Markdown.module.css";

export interface MarkdownProps {
  text: string;
  /** The address of an image; `undefined` if it must not be loaded. */
  image?: (src: string) => string | undefined;
}

/** A Markdown text. HTML is shown as text, and links open only pages and mail. */
export function Markdown({ text, image = () => undefined }: MarkdownProps) {
  const blocks = useMemo(() => parseMarkdown(text), [text]);
  return (
    <div className={styles.text}>
      <Blocks blocks={blocks} image={image} />
    </div>
  );
}

type ImageAddress = NonNullable<MarkdownProps["image"]>;

function Blocks({ blocks, image }: { blocks: Block[]; image: ImageAddress }) {
  // biome-ignore lint/suspicious/noArrayIndexKey: the blocks of a text do not move.
  return blocks.map((block, i) => <BlockView key={i} block={block} image={image} />);
}

function BlockView({ block, image }: { block: Block; image: ImageAddress }): ReactNode {
  switch (block.type) {
    case "heading": {
      // The page and the card have the first two levels.
      const Heading = `h${Math.min(6, block.level + 2)}` as "h3";
      return (
        <Heading className={styles[`h${block.level}`]}>
          <Inlines inlines={block.inlines} image={image} />
        </Heading>
      );
    }
    case "paragraph":
      return (
        <p>
          <Inlines inlines={block.inlines} image={image} />
        </p>
      );
    case "code":
      return <CodeBlock text={block.text} language={block.language} />;
    case "quote":
      return (
        <blockquote>
          <Blocks blocks={block.blocks} image={image} />
        </blockquote>
      );
    case "list": {
      const List = block.ordered ? "ol" : "ul";
      return (
        <List start={block.ordered ? block.start : undefined}>
          {block.items.map((item, i) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: items do not move.
            <li key={i} className={item.done === undefined ? undefined : styles.task}>
              {item.done !== undefined && (
                <input type="checkbox" checked={item.done} readOnly disabled aria-label={item.done ? "Done" : "Open"} />
              )}
              {item.blocks.length === 1 && item.blocks[0]?.type === "paragraph" ? (
                <span>
                  <Inlines inlines={item.blocks[0].inlines} image={image} />
                </span>
              ) : (
                <div>
                  <Blocks blocks={item.blocks} image={image} />
                </div>
              )}
            </li>
          ))}
        </List>
      );
    }
    case "table": {
      const cells = (row: Inline[][], Cell: "th" | "td") =>
        row.map((inlines, i) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: columns do not move.
          <Cell key={i} style={{ textAlign: block.aligns[i] }}>
            <Inlines inlines={inlines} image={image} />
          </Cell>
        ));
      return (
        <div className={styles.table}>
          <table>
            <thead>
              <tr>{cells(block.head, "th")}</tr>
            </thead>
            <tbody>
              {block.rows.map((row, i) => (
                // biome-ignore lint/suspicious/noArrayIndexKey: rows do not move.
                <tr key={i}>{cells(row, "td")}</tr>
              ))}
            </tbody>
          </table>
        </div>
      );
    }
    case "rule":
      return <hr />;
  }
}

function Inlines({ inlines, image }: { inlines: Inline[]; image: ImageAddress }) {
  return inlines.map((inline, i) => (
    // biome-ignore lint/suspicious/noArrayIndexKey: the parts of a text do not move.
    <InlineView key={i} inline={inline} image={image} />
  ));
}

function InlineView({ inline, image }: { inline: Inline; image: ImageAddress }): ReactNode {
  switch (inline.type) {
    case "text":
      return inline.text;
    case "code":
      return <code>{inline.text}</code>;
    case "break":
      return <br />;
    case "image": {
      const src = image(inline.src);
      return src ? (
        <img src={src} alt={inline.alt} loading="lazy" />
      ) : (
        <span className="quiet">[{inline.alt || "image"}]</span>
      );
    }
    case "link": {
      const href = safeHref(inline.href);
      const inside = <Inlines inlines={inline.inlines} image={image} />;
      return href ? (
        <a href={href} target="_blank" rel="noopener noreferrer">
          {inside}
        </a>
      ) : (
        <span title={inline.href}>{inside}</span>
      );
    }
    default: {
      const Element = ({ strong: "strong", emphasis: "em", deleted: "del" } as const)[inline.type];
      return (
        <Element>
          <Inlines inlines={inline.inlines} image={image} />
        </Element>
      );
    }
  }
}

function CodeBlock({ text, language }: { text: string; language: string }) {
  const lines = useHighlighted(text, languageNamed(language));
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: long lines scroll.
    <pre tabIndex={0}>
      <code>
        {lines.map((line, i) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: lines are never moved.
          <span key={i}>
            <Code line={line} />
            {i < lines.length - 1 && "\n"}
          </span>
        ))}
      </code>
    </pre>
  );
}
