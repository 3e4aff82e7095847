import type { Json } from "../../forms/manifest";

/** Minimal example specs by kind; only the names need to be adapted. */
export const STARTS: Record<string, Json> = {
  Model: { model: "claude-sonnet-4-5", providerRef: { name: "anthropic" }, limit: { context: 200000, output: 64000 } },
  ModelProvider: { type: "anthropic", apiKeySecretRef: { name: "anthropic-key", key: "apiKey" } },
  Instruction: { text: "Read before you write. Say what you are not sure of.\n" },
  RemoteMCPServer: { url: "https://mcp.example.com/mcp", refreshInterval: "5m" },
  MCPServer: { transport: "stdio", image: "docker.io/mcp/time:latest", command: ["mcp-server-time"] },
  AgentTool: {
    description: "Short description",
    openApi: { url: "https://api.example.com", openApiSchema: { endpointPath: "/openapi.json" } },
  },
  AgentWorkflow: { steps: [{ name: "first", task: { agentRef: { name: "my-agent" }, description: "What to do" } }] },
};
