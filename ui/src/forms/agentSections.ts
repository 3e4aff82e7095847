import { AGENT, AGENT_TOOL, INSTRUCTION, type Kind, MCP_SERVER, MODEL, REMOTE_MCP_SERVER } from "../api/kinds";
import type { FieldSpec, SectionSpec } from "./fieldSpecs";

const TOOL_KINDS: [Kind, string][] = [
  [REMOTE_MCP_SERVER, "Remote MCP server"],
  [MCP_SERVER, "MCP server"],
  [AGENT_TOOL, "HTTP tool"],
  [AGENT, "Agent"],
];

const CREDENTIALS: FieldSpec = {
  type: "items",
  label: "Credentials",
  one: "credential",
  path: ["credentials"],
  hint: "Secrets that the agent gets as environment variables or files.",
  initial: { name: "credential" },
  title: ["name"],
  fields: [
    { type: "text", label: "Name", path: ["name"], required: true },
    { type: "secret", label: "Secret", path: ["secretRef"], required: true, keyOptional: true },
    { type: "text", label: "Environment variable", path: ["env"], placeholder: "GITHUB_TOKEN" },
    { type: "text", label: "Mount path", path: ["mountPath"], placeholder: "/home/agent/.netrc", hint: "As a file." },
  ],
};

const TOOLS: FieldSpec = {
  type: "items",
  label: "Tools",
  one: "tool",
  path: ["tools"],
  hint: "Servers and APIs that the agent may call.",
  initial: { ref: { kind: REMOTE_MCP_SERVER.kind } },
  title: ["ref", "name"],
  fields: [
    {
      type: "select",
      label: "Kind",
      path: ["ref", "kind"],
      required: true,
      options: TOOL_KINDS.map(([kind, label]) => ({ value: kind.kind, label })),
    },
    ...TOOL_KINDS.map(
      ([kind]): FieldSpec => ({
        type: "object",
        as: "text",
        label: "Object",
        path: ["ref", "name"],
        kind,
        required: true,
        when: (text) => text(["ref", "kind"]) === kind.kind,
      }),
    ),
    { type: "lines", label: "Only these tools", path: ["toolNames"], hint: "One per line. All if empty." },
    { type: "lines", label: "Tools that need approval", path: ["requireApproval"], hint: "One per line." },
  ],
};

const APPROVAL: SectionSpec = {
  title: "Approval",
  rows: [
    [
      {
        type: "select",
        label: "Ask a person",
        path: ["approval", "mode"],
        none: "Never",
        options: [
          { value: "Ask", label: "Where the rules say so" },
          { value: "Always", label: "Before every tool call" },
        ],
      },
      {
        type: "text",
        label: "Reject unanswered requests after",
        path: ["approval", "timeout"],
        placeholder: "1h",
        when: (text) => text(["approval", "mode"]) !== "",
      },
    ],
  ],
};

const BUDGET: SectionSpec = {
  title: "Budget of all Tasks",
  rows: [
    [
      { type: "text", label: "Max tokens", path: ["budget", "maxTokens"], number: true, placeholder: "unlimited" },
      {
        type: "text",
        label: "Max cost",
        path: ["budget", "maxCost"],
        placeholder: "2.50",
        hint: "In the currency of the prices of the Model.",
      },
    ],
    { type: "text", label: "Window", path: ["budget", "window"], placeholder: "24h", hint: "Counted over this time." },
  ],
};

/** Sections of Agents and templates that are described as data; a budget belongs to Agents only. */
export function agentSections(agent: boolean): SectionSpec[] {
  return [
    {
      title: "Small model and instructions",
      rows: [
        {
          type: "object",
          label: "Small model",
          path: ["smallModelRef"],
          kind: MODEL,
          none: "Same as the model",
          hint: "For titles and other small work.",
        },
        {
          type: "items",
          label: "Instructions",
          one: "instruction",
          path: ["instructionRefs"],
          initial: { name: "" },
          title: ["name"],
          fields: [
            { type: "object", as: "text", label: "Instruction", path: ["name"], kind: INSTRUCTION, required: true },
          ],
        },
      ],
    },
    { title: "Credentials", rows: [CREDENTIALS] },
    { title: "Tools", rows: [TOOLS] },
    APPROVAL,
    ...(agent ? [BUDGET] : []),
  ];
}
