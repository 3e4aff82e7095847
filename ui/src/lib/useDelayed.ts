import { useEffect, useState } from "react";

/** A text after it has not changed for a time; an empty text at once. */
export function useDelayed(text: string, milliseconds: number): string {
  const [settled, setSettled] = useState(text);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(text), milliseconds);
    return () => clearTimeout(timer);
  }, [text, milliseconds]);
  return text === "" ? "" : settled;
}
