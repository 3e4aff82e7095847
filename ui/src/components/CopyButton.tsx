import { Check, Copy } from "lucide-react";
import { useState } from "react";
import { IconButton } from "./IconButton";
import { toast } from "./toast";

export function CopyButton({ text, label = "Copy" }: { text: string; label?: string }) {
  const [copied, setCopied] = useState(false);
  const copy = () => {
    navigator.clipboard.writeText(text).then(
      () => {
        setCopied(true);
        setTimeout(() => setCopied(false), 1_500);
      },
      () => toast.failed("The browser blocked copying. Select the text instead."),
    );
  };
  return (
    <IconButton
      small
      label={copied ? "Copied" : label}
      icon={copied ? <Check size={14} /> : <Copy size={14} />}
      onClick={copy}
    />
  );
}
