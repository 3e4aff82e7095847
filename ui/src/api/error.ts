import type { FieldProblem } from "./types";

/** A refusal by the server, with its stable word and, when known, the fields that are wrong. */
export class ApiError extends Error {
  constructor(
    /** HTTP status; 0 when the server could not be reached. */
    readonly code: number,
    /** Stable word such as NotFound or Invalid. */
    readonly word: string,
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

/** Reads the server's error body; a body that is not ours (a proxy's page) still gives a usable sentence. */
export async function errorOf(response: Response): Promise<ApiError> {
  let body: ErrorBody = {};
  try {
    body = (await response.json()) as ErrorBody;
  } catch {
    body = {};
  }
  const message = body.message ?? `The server answered ${response.status} ${response.statusText}`.trim();
  const fields = body.fields ?? (body.field ? [{ field: body.field, message }] : []);
  return new ApiError(response.status, body.error ?? "Error", message, fields);
}
