import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

/** API server of the development server; by default the mock. */
const api = process.env.API_URL ?? "http://127.0.0.1:2747";

export default defineConfig({
  plugins: [react()],
  build: {
    target: "es2022",
    // Inlined assets would need `data:` in the content security policy.
    assetsInlineLimit: 0,
    // The polyfill is an inline script in some browsers; every browser we support preloads modules itself.
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 700,
  },
  server: {
    host: "127.0.0.1",
    port: 5173,
    proxy: {
      "/api": { target: api, ws: true },
      "^/s/[^/]+/(info|terminal)$": { target: api, ws: true },
      "/health": api,
      "/ready": api,
    },
  },
  test: {
    projects: [
      // Pure functions need no DOM, which is slow to create.
      { extends: true, test: { name: "logic", environment: "node", include: ["src/**/*.test.ts"], isolate: false } },
      {
        extends: true,
        test: {
          name: "parts",
          environment: "jsdom",
          include: ["src/**/*.test.tsx"],
          setupFiles: ["src/test/setup.ts"],
          isolate: false,
          restoreMocks: true,
          css: { modules: { classNameStrategy: "non-scoped" } },
        },
      },
    ],
  },
});
