import { useVirtualizer } from "@tanstack/react-virtual";
import { ArrowDownToLine, ChevronDown, ChevronUp, Download, WrapText } from "lucide-react";
import { type KeyboardEvent, useEffect, useMemo, useRef, useState } from "react";
import { useShortcuts } from "../app/shortcuts";
import { Button, buttonClass } from "../components/Button";
import { classes } from "../components/classes";
import { IconButton } from "../components/IconButton";
import { Select } from "../components/Select";
import { Spinner } from "../components/Spinner";
import surface from "../components/surface.module.css";
import { TextInput } from "../components/TextInput";
import { count, plural, sentence } from "../lib/format";
import { AnsiText } from "./AnsiText";
import type { Place } from "./earlier";
import styles from "./LogView.module.css";
import { findAll, type LogLine, markSpans } from "./lines";
import { StoredNote } from "./StoredNote";
import { useLogSearch } from "./useLogSearch";
import type { LogState } from "./useLogStream";
import type { StoredMatches } from "./useStoredMatches";

const LINE = 20;
/** Distance from the end, in pixels, that counts as the end. */
const NEAR_END = 24;
/** Earlier lines that are shown at a time. */
const WINDOW = 2_000;

export interface LogViewProps {
  log: LogState;
  containers: string[];
  container: string;
  onContainer: (container: string) => void;
  /** Number of the run whose log is shown, and of the current one. */
  run?: number;
  runs?: number;
  onRun?: (run: number) => void;
  onSearch?: (text: string) => void;
  /** What the server found in the stored logs, also of other runs. */
  stored?: StoredMatches | undefined;
  downloadUrl: string;
  fileName: string;
}

/** A virtualized log with colours, search and wrapping; it follows the end until the user scrolls up. */
export function LogView({
  log,
  containers,
  container,
  onContainer,
  run = 1,
  runs = 1,
  onRun,
  onSearch,
  stored,
  downloadUrl,
  fileName,
}: LogViewProps) {
  const scroller = useRef<HTMLDivElement>(null);
  const [wrap, setWrap] = useState(true);
  const [follow, setFollow] = useState(true);
  const [search, setSearch] = useState("");
  const [chosen, setChosen] = useState<Place>();
  /** Number of the first of the earlier lines that are shown instead of the end of the log. */
  const [windowAt, setWindowAt] = useState<number>();

  const { matches: loaded, progress, isPartial, cancel } = useLogSearch(log.lines, log.earlier, log.dropped, search);
  const first = log.dropped > 0 ? log.earlier.first : 1;
  /** Matching lines before those that the page keeps. */
  const unloaded = useMemo(() => {
    const ofRun = stored?.found?.runs.find(({ epoch }) => epoch === run);
    return (ofRun?.matches ?? []).filter(({ line }) => line < first).map(storedLine);
  }, [stored?.found, run, first]);
  const matches = useMemo(
    () => (unloaded.length === 0 ? loaded : [...findAll(unloaded, search), ...loaded]),
    [unloaded, loaded, search],
  );
  const isHere = (place: Place) => place.number === chosen?.number && place.start === chosen.start;
  // At first, the first match in the shown lines.
  const found = Math.max(0, matches.findIndex(chosen ? isHere : ({ number }) => number > log.dropped));
  const at = matches[found];
  const byLine = useMemo(() => {
    const map = new Map<number, number[]>();
    for (const { number, start } of matches) {
      const starts = map.get(number);
      if (starts) starts.push(start);
      else map.set(number, [start]);
    }
    return map;
  }, [matches]);

  // Another container or run has another log.
  useEffect(() => {
    if (log.dropped === 0) setWindowAt(undefined);
  }, [log.dropped]);
  const isEarlier = windowAt !== undefined && log.dropped > 0;
  const earlier = useMemo(
    () => (isEarlier ? log.earlier.slice(windowAt, windowAt + WINDOW).map(plainLine) : []),
    [isEarlier, windowAt, log.earlier],
  );
  const isUnloaded = isEarlier && windowAt < first && unloaded.length > 0;
  const lines = isUnloaded ? unloaded : isEarlier ? earlier : log.lines;

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
    if (follow && !isEarlier && lines.length > 0) rows.scrollToIndex(lines.length - 1, { align: "end" });
  }, [lines.length, follow, wrap, isEarlier]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: only a new match scrolls, not new lines.
  useEffect(() => {
    if (!at) return;
    setFollow(false);
    const isShown = lines.some(({ number }) => number === at.number);
    if (isShown) return;
    if (at.number < first) setWindowAt(1);
    else setWindowAt(at.number > log.dropped ? undefined : Math.max(first, windowStart(at.number)));
  }, [at?.number, at?.start]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: only another match or another window scrolls, not new lines.
  useEffect(() => {
    const index = at ? lines.findIndex(({ number }) => number === at.number) : -1;
    if (index >= 0) rows.scrollToIndex(index, { align: "center" });
    else if (isEarlier) rows.scrollToIndex(0);
  }, [at?.number, at?.start, isEarlier, windowAt]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: wrapping changes the height of all rows.
  useEffect(() => rows.measure(), [wrap]);

  const step = (by: number) => setChosen(matches[(found + by + matches.length) % Math.max(1, matches.length)]);
  const toNext = () => step(1);
  const toPrevious = () => step(-1);
  useShortcuts(matches.length > 0 ? { n: toNext, N: toPrevious } : {});
  const showEnd = () => {
    setWindowAt(undefined);
    setFollow(true);
  };
  const onSearchKey = (event: KeyboardEvent) => {
    if (event.key === "Enter") {
      event.preventDefault();
      step(event.shiftKey ? -1 : 1);
    } else if (event.key === "Escape") {
      setSearch("");
      onSearch?.("");
    }
  };
  const onScroll = () => {
    const element = scroller.current;
    if (!element || isEarlier) return;
    setFollow(element.scrollHeight - element.scrollTop - element.clientHeight < NEAR_END);
  };

  const following = follow && !isEarlier;
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
              setChosen(undefined);
              onSearch?.(value);
            }}
            onKeyDown={onSearchKey}
          />
          <span className={styles.count} role="status">
            {search === "" ? "" : countOf(found, matches.length, progress !== undefined, isPartial)}
          </span>
          <IconButton
            small
            label="Previous match"
            icon={<ChevronUp size={15} />}
            disabled={matches.length === 0}
            onClick={toPrevious}
          />
          <IconButton
            small
            label="Next match"
            icon={<ChevronDown size={15} />}
            disabled={matches.length === 0}
            onClick={toNext}
          />
        </div>
        {runs > 1 && onRun && (
          <Select
            aria-label="Run"
            value={String(run)}
            options={Array.from({ length: runs }, (_, i) => ({ value: String(runs - i), label: `Run ${runs - i}` }))}
            onValue={(value) => onRun(Number(value))}
          />
        )}
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
          label={following ? "Following the log" : "Follow the log"}
          aria-pressed={following}
          variant={following ? "default" : "plain"}
          icon={<ArrowDownToLine size={15} />}
          onClick={showEnd}
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
      {progress !== undefined && (
        <div className={styles.note}>
          <span>Searching the earlier lines: {Math.floor(progress * 100)}%</span>
          <Button small onClick={cancel}>
            Cancel
          </Button>
        </div>
      )}
      {stored && <StoredNote stored={stored} run={run} onRun={onRun} />}
      {isEarlier && (
        <div className={styles.note}>
          <span>
            {isUnloaded
              ? `${plural(unloaded.length, "matching line")} before line ${count(first)}. The page does not keep the lines between them`
              : lines.length > 0
                ? `Lines ${count(lines[0]?.number ?? 0)} to ${count(lines.at(-1)?.number ?? 0)}`
                : "These lines are available in the download only"}
          </span>
          <Button small disabled={windowAt <= first} onClick={() => setWindowAt(Math.max(first, windowAt - WINDOW))}>
            Earlier
          </Button>
          <Button small onClick={() => setWindowAt(later(Math.max(first - WINDOW, windowAt) + WINDOW, log.dropped))}>
            Later
          </Button>
          <Button small onClick={showEnd}>
            End of the log
          </Button>
        </div>
      )}
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
              const starts = byLine.get(line.number) ?? [];
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
                        at?.number === line.number ? at.start : undefined,
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
        {log.dropped === 0 ? (
          <span>{plural(log.lines.length, "line")}</span>
        ) : (
          <span className={styles.all}>
            {plural(log.dropped + log.lines.length, "line")}
            {log.earlier.first > 1 && `, the first ${count(log.earlier.first - 1)} in the download only`}
            {!isEarlier && (
              <Button small variant="plain" onClick={() => setWindowAt(windowStart(log.dropped, WINDOW))}>
                Show earlier lines
              </Button>
            )}
          </span>
        )}
      </div>
    </div>
  );
}

function plainLine({ number, text }: { number: number; text: string }): LogLine {
  return { number, text, spans: text === "" ? [] : [{ text }] };
}

/** A match that the server found. */
function storedLine({ line, time, text }: { line: number; time?: string; text: string }): LogLine {
  return { ...plainLine({ number: line, text }), ...(time === undefined ? {} : { time }) };
}

/** The next window; `undefined` for the end of the log. */
function later(windowAt: number, dropped: number): number | undefined {
  return windowAt > dropped ? undefined : windowAt;
}

/** The first line of a window that contains a line, by default in its middle. */
function windowStart(number: number, before = WINDOW / 2): number {
  return Math.max(1, number - before + 1);
}

/** `3 of 12`, or what is known of it. */
function countOf(found: number, all: number, searching: boolean, isPartial: boolean): string {
  if (all === 0) return searching ? "" : "none";
  return `${count(found + 1)} of ${count(all)}${searching || isPartial ? "+" : ""}`;
}

/** The state of the log as text. */
function stateOf(log: LogState): string {
  if (log.error) return sentence(log.error);
  if (log.stream === "reconnecting") return "Reconnecting to the log";
  if (!log.complete) return "Live";
  if (log.lacks) return log.cut ? `The log is incomplete: ${log.lacks}` : sentence(log.lacks);
  return log.cut ? "The log is incomplete: the Pod was deleted before all of it was stored" : "The log is complete";
}
