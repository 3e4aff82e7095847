import type { SetupProvider } from "../../api/types";

export interface ProviderInfo {
  id: SetupProvider;
  title: string;
  about: string;
  /** Where users create keys. */
  keyPage?: string;
  keyPlaceholder?: string;
  needsKey: boolean;
  /** The address field: required, prefilled, or only among further settings. */
  address: { kind: "required"; placeholder: string } | { kind: "prefilled"; url: string } | { kind: "fixed" };
}

/** The providers that the server offers to set up, in the order of the page. */
export const PROVIDERS: ProviderInfo[] = [
  {
    id: "anthropic",
    title: "Anthropic",
    about: "Claude models",
    keyPage: "https://console.anthropic.com/settings/keys",
    keyPlaceholder: "sk-ant-…",
    needsKey: true,
    address: { kind: "fixed" },
  },
  {
    id: "openai",
    title: "OpenAI",
    about: "GPT models",
    keyPage: "https://platform.openai.com/api-keys",
    keyPlaceholder: "sk-…",
    needsKey: true,
    address: { kind: "fixed" },
  },
  {
    id: "google",
    title: "Google",
    about: "Gemini models",
    keyPage: "https://aistudio.google.com/apikey",
    keyPlaceholder: "AIza…",
    needsKey: true,
    address: { kind: "fixed" },
  },
  {
    id: "ollama",
    title: "Ollama",
    about: "Models on your own machine, without a key",
    needsKey: false,
    address: { kind: "prefilled", url: "http://127.0.0.1:11434" },
  },
  {
    id: "openai-compatible",
    title: "OpenAI-compatible",
    about: "vLLM, llama.cpp, LiteLLM, OpenRouter and others",
    needsKey: false,
    address: { kind: "required", placeholder: "http://127.0.0.1:8080/v1" },
  },
];
