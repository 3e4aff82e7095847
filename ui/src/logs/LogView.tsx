import { useVirtualizer } from "@tanstack/react-virtual";
import { ArrowDownToLine, ChevronDown, ChevronUp, Download, WrapText } from "lucide-react";
import { type KeyboardEvent, useEffect, useMemo, useRef, useState } from "react";
import { buttonClass } from "../components/Button";
import { classes } from "../components/classes";
import { IconButton } from "../components/IconButton";
import { Select } from "../components/Select";
import { Spinner } from "../components/Spinner";
import surface from "../components/surface.module.css";
import { TextInput } from "../components/TextInput";
import { plural, sentence } from "../lib/format";
import { AnsiText } from "./AnsiText";
import styles from "./LogView.module.css";
import { findAll, markSpans } from "./lines";
import type { LogState } from "./useLogStream";

const LINE = 20;
/** Distance from the end, in pixels, that counts as the end. */
const NEAR_END = 24;

export interface LogViewProps {
  log: LogState;
  containers: string[];
  container: string;
  onContainer: (container: string) => void;
  downloadUrl: string;
  fileName: string;
}

/** A virtualized log with colours, search and wrapping; it follows the end until the user scrolls up. */
export function LogView({ log, containers, container, onContainer, downloadUrl, fileName }: LogViewProps) {
  const scroller = useRef<HTMLDivElement>(null);
  const [wrap, setWrap] = useState(true);
  const [follow, setFollow] = useState(true);
  const [search, setSearch] = useState("");
  const [chosen, setChosen] = useState(0);

  const { lines } = log;
  const matches = useMemo(() => findAll(lines, search), [lines, search]);
  const at = matches.length === 0 ? undefined : matches[chosen % matches.length];
  const byLine = useMemo(() => {
    const map = new Map<number, number[]>();
    for (const match of matches) map.set(match.line, [...(map.get(match.line) ?? []), match.start]);
    return map;
  }, [matches]);

  const rows = useVirtualizer({
    count: lines.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => LINE,
    overscan: 30,
    getItemKey: (index) => lines[index]?.number ?? index,
    initialRect: { width: 800, height: 480 },
  });

  // biome-ignore lint/correctness/useExhaustiveDependencies: only new lines move the end.
  useEffect(() => {
    if (follow && lines.length > 0) rows.scrollToIndex(lines.length - 1, { align: "end" });
  }, [lines.length, follow, wrap]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: only a new match scrolls, not new lines.
  useEffect(() => {
    if (!at) return;
    setFollow(false);
    rows.scrollToIndex(at.line, { align: "center" });
  }, [at?.line, at?.start]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: wrapping changes the height of all rows.
  useEffect(() => rows.measure(), [wrap]);

  const step = (by: number) =>
    setChosen((previous) => (matches.length === 0 ? 0 : (previous + by + matches.length) % matches.length));
  const onSearchKey = (event: KeyboardEvent) => {
    if (event.key === "Enter") {
      event.preventDefault();
      step(event.shiftKey ? -1 : 1);
    } else if (event.key === "Escape") setSearch("");
  };
  const onScroll = () => {
    const element = scroller.current;
    if (!element) return;
    setFollow(element.scrollHeight - element.scrollTop - element.clientHeight < NEAR_END);
  };

  return (
    <div className={styles.view}>
      <div className={styles.tools}>
        <div className={styles.search}>
          <TextInput
            type="search"
            aria-label="Search in the log"
            placeholder="Search in the log"
            data-filter=""
            value={search}
            onValue={(value) => {
              setSearch(value);
              setChosen(0);
            }}
            onKeyDown={onSearchKey}
          />
          <span className={styles.count} role="status">
            {search === ""
              ? ""
              : matches.length === 0
                ? "none"
                : `${(chosen % matches.length) + 1} of ${matches.length}`}
          </span>
          <IconButton
            small
            label="Previous match"
            icon={<ChevronUp size={15} />}
            disabled={matches.length === 0}
            onClick={() => step(-1)}
          />
          <IconButton
            small
            label="Next match"
            icon={<ChevronDown size={15} />}
            disabled={matches.length === 0}
            onClick={() => step(1)}
          />
        </div>
        {containers.length > 1 && (
          <Select aria-label="Container" value={container} options={containers} onValue={onContainer} />
        )}
        <IconButton
          small
          label={wrap ? "Disable line wrap" : "Wrap lines"}
          aria-pressed={wrap}
          variant={wrap ? "default" : "plain"}
          icon={<WrapText size={15} />}
          onClick={() => setWrap(!wrap)}
        />
        <IconButton
          small
          label={follow ? "Following the log" : "Follow the log"}
          aria-pressed={follow}
          variant={follow ? "default" : "plain"}
          icon={<ArrowDownToLine size={15} />}
          onClick={() => setFollow(true)}
        />
        <a
          className={buttonClass("plain", true, true)}
          href={downloadUrl}
          download={fileName}
          aria-label="Download the log"
          title="Download the log"
        >
          <Download size={15} />
        </a>
      </div>
      <div
        className={styles.scroller}
        ref={scroller}
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrolling area must be reachable by keyboard.
        tabIndex={0}
        role="log"
        aria-label="Log"
        aria-live="off"
        onScroll={onScroll}
      >
        {lines.length === 0 ? (
          <div className={styles.message}>
            {log.complete ? (
              log.cut ? (
                "The log of this run could not be stored."
              ) : (
                sentence(log.info ?? "This run has no log.")
              )
            ) : (
              <>
                <Spinner />
                <span>{sentence(log.info ?? "Waiting for output")}</span>
              </>
            )}
          </div>
        ) : (
          <div className={classes(styles.lines, wrap && styles.wrapped)} style={{ height: rows.getTotalSize() }}>
            {rows.getVirtualItems().map((place) => {
              const line = lines[place.index];
              if (!line) return null;
              const starts = byLine.get(place.index) ?? [];
              return (
                <div
                  key={place.key}
                  ref={wrap ? rows.measureElement : undefined}
                  data-index={place.index}
                  className={styles.line}
                  style={{ transform: `translateY(${place.start}px)` }}
                  title={line.time}
                >
                  <span className={styles.number}>{line.number}</span>
                  <span className={styles.text}>
                    <AnsiText
                      spans={markSpans(
                        line.spans,
                        starts,
                        search.length,
                        at?.line === place.index ? at.start : undefined,
                      )}
                    />
                  </span>
                </div>
              );
            })}
          </div>
        )}
      </div>
      <div className={classes(surface.foot, styles.foot)}>
        <span role="status">{stateOf(log)}</span>
        <span>
          {plural(lines.length, "line")}
          {log.dropped > 0 ? ` (the first ${log.dropped} are available in the download only)` : ""}
        </span>
      </div>
    </div>
  );
}

/** The state of the log as text. */
function stateOf(log: LogState): string {
  if (log.error) return sentence(log.error);
  if (log.stream === "reconnecting") return "Reconnecting to the log";
  if (!log.complete) return "Live";
  return log.cut ? "The log is incomplete: the Pod was deleted before all of it was stored" : "The log is complete";
}
