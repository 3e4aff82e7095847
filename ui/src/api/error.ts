import type { FieldProblem } from "./types";

/** An error response of the server, with its stable reason and, if known, the invalid fields. */
export class ApiError extends Error {
  constructor(
    /** HTTP status; 0 if the server is unreachable. */
    readonly code: number,
    /** Stable identifier such as NotFound or Invalid. */
    readonly reason: string,
    message: string,
    readonly fields: FieldProblem[] = [],
  ) {
    super(message);
    this.name = "ApiError";
  }

  static is(error: unknown, code: number): error is ApiError {
    return error instanceof ApiError && error.code === code;
  }
}

interface ErrorBody {
  error?: string;
  message?: string;
  code?: number;
  field?: string;
  fields?: FieldProblem[];
}

/** Parses an error response; any other body (the page of a proxy) still gives a usable message. */
export async function errorOf(response: Response): Promise<ApiError> {
  let body: ErrorBody = {};
  try {
    body = (await response.json()) as ErrorBody;
  } catch {
    body = {};
  }
  const message = body.message ?? `The server responded with ${response.status} ${response.statusText}`.trim();
  const fields = body.fields ?? (body.field ? [{ field: body.field, message }] : []);
  return new ApiError(response.status, body.error ?? "Error", message, fields);
}
