import { ApiError, errorOf } from "./error";

export const BASE = "/api/v1";

export type Query = Record<string, string | number | boolean | undefined>;

export interface Call {
  method?: "GET" | "POST" | "PUT" | "DELETE";
  query?: Query;
  /** Sent as JSON. */
  json?: unknown;
  /** Sent as YAML; takes precedence over `json`. */
  yaml?: string;
  headers?: Record<string, string>;
  signal?: AbortSignal;
}

let csrfToken: string | undefined;
let onUnauthorized: () => void = () => {};

/** CSRF token of the cookie session; sent with every write. */
export function setCsrfToken(token: string | undefined): void {
  csrfToken = token;
}

/** Called when the session ends while the page is open. */
export function setUnauthorizedHandler(handler: () => void): void {
  onUnauthorized = handler;
}

/** Path under the API with every segment escaped. */
export function path(...segments: string[]): string {
  return `/${segments.map(encodeURIComponent).join("/")}`;
}

/** Path of an object, or of a list if `name` is omitted; an empty namespace means all namespaces. */
export function objectPath(plural: string, namespace?: string, name?: string): string {
  if (!namespace) return path(plural);
  return name === undefined ? path("namespaces", namespace, plural) : path("namespaces", namespace, plural, name);
}

export function url(target: string, query: Query = {}): string {
  const search = new URLSearchParams();
  for (const [key, value] of Object.entries(query)) {
    if (value !== undefined && value !== "") search.set(key, String(value));
  }
  const tail = search.toString();
  return `${BASE}${target}${tail ? `?${tail}` : ""}`;
}

/** Calls the API and returns the response, whose body is not read yet. */
export async function send(target: string, call: Call = {}): Promise<Response> {
  const method = call.method ?? "GET";
  const headers: Record<string, string> = { ...call.headers };
  let body: string | undefined;
  if (call.yaml !== undefined) {
    headers["Content-Type"] = "application/yaml";
    body = call.yaml;
  } else if (call.json !== undefined) {
    headers["Content-Type"] = "application/json";
    body = JSON.stringify(call.json);
  }
  if (method !== "GET" && csrfToken) headers["X-KubeOpenCode-CSRF"] = csrfToken;
  let response: Response;
  try {
    response = await fetch(url(target, call.query), {
      method,
      headers,
      body,
      credentials: "same-origin",
      signal: call.signal,
    });
  } catch (cause) {
    if (cause instanceof DOMException && cause.name === "AbortError") throw cause;
    throw new ApiError(
      0,
      "Unreachable",
      "The server cannot be reached. Check that it is running and that the network is up.",
    );
  }
  if (!response.ok) {
    if (response.status === 401) onUnauthorized();
    throw await errorOf(response);
  }
  return response;
}

/** Calls the API and parses the JSON response; `undefined` if the body is empty. */
export async function call<T>(target: string, options: Call = {}): Promise<T> {
  const response = await send(target, options);
  if (response.status === 204) return undefined as T;
  return (await response.json()) as T;
}

/** Calls the API and returns the response as text. */
export async function callText(target: string, options: Call = {}): Promise<string> {
  return (await send(target, options)).text();
}
