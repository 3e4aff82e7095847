import { MODEL_PROVIDER } from "../api/kinds";
import type { FieldSpec, SectionSpec } from "./fieldSpecs";
import type { Json } from "./manifest";

/** The form of a kind: its sections and the spec that it starts with. */
export interface KindForm {
  start: Json;
  sections: SectionSpec[];
}

const NEEDS_URL = ["ollama", "openai-compatible", "azure"];

const SECRET_HEADERS: FieldSpec = {
  type: "items",
  label: "Headers from Secrets",
  one: "header",
  path: ["headersFrom"],
  initial: { name: "Authorization" },
  title: ["name"],
  fields: [
    { type: "text", label: "Header", path: ["name"], required: true, placeholder: "Authorization" },
    { type: "secret", label: "Secret", path: ["secretKeyRef"], required: true },
  ],
};

/** Forms by kind. The YAML beside each form has every field. */
export const KIND_FORMS: Record<string, KindForm> = {
  ModelProvider: {
    start: { type: "anthropic" },
    sections: [
      {
        title: "Provider",
        rows: [
          {
            type: "select",
            label: "Type",
            path: ["type"],
            required: true,
            hint: "The protocol that the provider speaks.",
            options: [
              { value: "anthropic", label: "Anthropic" },
              { value: "openai", label: "OpenAI" },
              { value: "google", label: "Google Gemini" },
              { value: "ollama", label: "Ollama" },
              { value: "openai-compatible", label: "OpenAI-compatible" },
              { value: "azure", label: "Azure OpenAI" },
              { value: "bedrock", label: "Amazon Bedrock" },
              { value: "vertex", label: "Google Vertex AI" },
              { value: "opencode", label: "OpenCode" },
            ],
          },
          {
            type: "text",
            label: "Base URL",
            path: ["baseURL"],
            required: (text) => NEEDS_URL.includes(text(["type"])),
            placeholder: "http://127.0.0.1:8080/v1",
            hint: "Tasks must reach this address. If empty, the provider's own.",
          },
          {
            type: "text",
            label: "Region",
            path: ["region"],
            placeholder: "eu-central-1",
            when: (text) => ["bedrock", "vertex"].includes(text(["type"])),
          },
          { type: "text", label: "Project", path: ["project"], when: (text) => text(["type"]) === "vertex" },
        ],
      },
      {
        title: "Credentials",
        rows: [{ type: "secret", label: "API key", path: ["apiKeySecretRef"] }, SECRET_HEADERS],
      },
    ],
  },
  Model: {
    start: {},
    sections: [
      {
        title: "Model",
        rows: [
          [
            { type: "object", label: "Provider", path: ["providerRef"], kind: MODEL_PROVIDER, required: true },
            {
              type: "text",
              label: "Model",
              path: ["model"],
              required: true,
              placeholder: "claude-sonnet-4-5",
              hint: "As the provider names it.",
            },
          ],
        ],
      },
      {
        title: "Limits and price",
        rows: [
          [
            { type: "text", label: "Context window", path: ["limit", "context"], number: true, hint: "Tokens." },
            { type: "text", label: "Longest answer", path: ["limit", "output"], number: true, hint: "Tokens." },
          ],
          [
            {
              type: "text",
              label: "Input price",
              path: ["cost", "input"],
              number: true,
              hint: "Per million tokens. Budgets by cost need prices.",
            },
            {
              type: "text",
              label: "Output price",
              path: ["cost", "output"],
              number: true,
              hint: "Per million tokens.",
            },
          ],
        ],
      },
      {
        title: "Options",
        rows: [
          [
            {
              type: "text",
              label: "Temperature",
              path: ["options", "temperature"],
              number: true,
              hint: "From 0 to 2.",
            },
            {
              type: "select",
              label: "Reasoning effort",
              path: ["options", "reasoningEffort"],
              none: "Default of the model",
              options: ["none", "minimal", "low", "medium", "high", "xhigh"],
            },
          ],
        ],
      },
    ],
  },
  Instruction: {
    start: {},
    sections: [
      {
        title: "Text",
        rows: [
          {
            type: "area",
            label: "Text",
            path: ["text"],
            rows: 10,
            required: true,
            placeholder: "Read before you write. Run the tests before you finish.",
            hint: "{{ name }} is replaced by a variable.",
            when: (text) => text(["configMapKeyRef", "name"]) === "",
          },
          [
            {
              type: "text",
              label: "ConfigMap",
              path: ["configMapKeyRef", "name"],
              hint: "Contains the text instead.",
              when: (text) => text(["text"]) === "",
            },
            {
              type: "text",
              label: "Key",
              path: ["configMapKeyRef", "key"],
              when: (text) => text(["text"]) === "",
            },
          ],
        ],
      },
    ],
  },
  RemoteMCPServer: {
    start: {},
    sections: [
      {
        title: "Endpoint",
        rows: [
          { type: "text", label: "Description", path: ["description"], hint: "Short description shown to users." },
          {
            type: "text",
            label: "URL",
            path: ["url"],
            required: true,
            placeholder: "https://mcp.example.com/mcp",
            when: (text) => text(["serviceRef", "name"]) === "",
          },
          [
            {
              type: "select",
              label: "Protocol",
              path: ["protocol"],
              none: "Streamable HTTP",
              options: [{ value: "SSE", label: "Server-sent events" }],
            },
            { type: "text", label: "Timeout of a call", path: ["timeout"], placeholder: "30s" },
          ],
        ],
      },
      { title: "Credentials", rows: [SECRET_HEADERS] },
    ],
  },
  MCPServer: {
    start: { transport: "http" },
    sections: [
      {
        title: "Server",
        rows: [
          [
            {
              type: "select",
              label: "Transport",
              path: ["transport"],
              required: true,
              options: [
                { value: "http", label: "HTTP" },
                { value: "stdio", label: "Standard input and output" },
              ],
            },
            { type: "text", label: "Image", path: ["image"], required: true, placeholder: "docker.io/mcp/time:latest" },
          ],
          [
            {
              type: "lines",
              label: "Command",
              path: ["command"],
              required: (text) => text(["transport"]) === "stdio",
              hint: "One argument per line.",
            },
            { type: "lines", label: "Arguments", path: ["args"], hint: "One per line." },
          ],
          [
            { type: "text", label: "Port", path: ["port"], number: true, placeholder: "8080" },
            { type: "text", label: "Replicas", path: ["replicas"], number: true, placeholder: "1" },
          ],
        ],
      },
      {
        title: "Environment",
        rows: [
          {
            type: "items",
            label: "Environment",
            one: "variable",
            path: ["env"],
            initial: { name: "" },
            title: ["name"],
            fields: [
              { type: "text", label: "Variable", path: ["name"], required: true },
              {
                type: "text",
                label: "Value",
                path: ["value"],
                when: (text) => text(["valueFrom", "secretKeyRef", "name"]) === "",
              },
              {
                type: "secret",
                label: "Secret",
                path: ["valueFrom", "secretKeyRef"],
                when: (text) => text(["value"]) === "",
              },
            ],
          },
        ],
      },
    ],
  },
  AgentTool: {
    start: {},
    sections: [
      {
        title: "API",
        rows: [
          { type: "area", label: "Description", path: ["description"], rows: 2, hint: "Agents read it." },
          [
            {
              type: "text",
              label: "URL",
              path: ["openApi", "url"],
              required: true,
              placeholder: "https://api.example.com",
            },
            {
              type: "text",
              label: "Path of the OpenAPI document",
              path: ["openApi", "openApiSchema", "endpointPath"],
              required: true,
              placeholder: "/openapi.json",
            },
          ],
          { type: "lines", label: "Operations", path: ["operations"], hint: "Only these, one per line. All if empty." },
        ],
      },
      {
        title: "Credentials",
        rows: [
          {
            type: "select",
            label: "Authentication",
            path: ["auth", "type"],
            none: "None",
            options: [
              { value: "ApiKey", label: "API key in a header" },
              { value: "Bearer", label: "Bearer token" },
              { value: "Basic", label: "User name and password" },
              { value: "OAuth2ClientCredentials", label: "OAuth 2 client credentials" },
            ],
          },
          {
            type: "text",
            label: "Secret",
            path: ["auth", "secretRef", "name"],
            required: true,
            hint: "With key, token, username and password, or clientId and clientSecret.",
            when: (text) => text(["auth", "type"]) !== "",
          },
          {
            type: "text",
            label: "Header",
            path: ["auth", "header"],
            placeholder: "X-API-Key",
            when: (text) => text(["auth", "type"]) === "ApiKey",
          },
          {
            type: "text",
            label: "Token URL",
            path: ["auth", "tokenURL"],
            required: true,
            when: (text) => text(["auth", "type"]) === "OAuth2ClientCredentials",
          },
        ],
      },
    ],
  },
};
