import { createHash, generateKeyPairSync, randomUUID, sign } from "node:crypto";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";

export const CLIENT = "page";

/** Claims of a user. */
export type Person = Record<string, unknown>;

const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url");
const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });

/** An OpenID Connect provider on loopback, with a consent page. */
export class Provider {
  private readonly server: Server;
  /** Issued codes with their authorization requests. */
  private readonly codes = new Map<string, URLSearchParams>();

  /** `person` is the current user. */
  constructor(public person: Person) {
    this.server = createServer((request, response) => void this.answer(request, response));
  }

  listen(): Promise<void> {
    return new Promise((done) => this.server.listen(0, "127.0.0.1", done));
  }

  close(): void {
    this.server.closeAllConnections();
    this.server.close();
  }

  get issuer(): string {
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}`;
  }

  private async answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? "/", this.issuer);
    const say = (type: string, body: string, code = 200) =>
      response.writeHead(code, { "Content-Type": type }).end(body);
    const json = (body: object, code = 200) => say("application/json", JSON.stringify(body), code);
    switch (url.pathname) {
      case "/.well-known/openid-configuration":
        return void json({
          issuer: this.issuer,
          authorization_endpoint: `${this.issuer}/authorize`,
          token_endpoint: `${this.issuer}/token`,
          jwks_uri: `${this.issuer}/keys`,
        });
      case "/keys":
        return void json({ keys: [{ ...publicKey.export({ format: "jwk" }), kid: "one", alg: "ES256" }] });
      case "/authorize":
        return void say("text/html", this.question(url.searchParams));
      case "/token": {
        const form = new URLSearchParams(await text(request));
        const token = this.token(form);
        return void (token ? json({ id_token: token, token_type: "Bearer" }) : json({ error: "invalid_grant" }, 400));
      }
      default:
        return void say("text/plain", "Nothing is here", 404);
    }
  }

  /** The consent page; both links redirect back. */
  private question(asked: URLSearchParams): string {
    const code = randomUUID();
    this.codes.set(code, asked);
    const back = (answer: Record<string, string>) => {
      const url = new URL(asked.get("redirect_uri") ?? "");
      for (const [name, value] of Object.entries({ ...answer, state: asked.get("state") ?? "" }))
        url.searchParams.set(name, value);
      return url.href.replaceAll("&", "&amp;");
    };
    return `<!doctype html><title>Acme</title><link rel="icon" href="data:,">
      <a href="${back({ code })}">Continue</a> <a href="${back({ error: "access_denied" })}">Cancel</a>`;
  }

  /** The token for a code, if the verifier matches. */
  private token(form: URLSearchParams): string | undefined {
    const asked = this.codes.get(form.get("code") ?? "");
    const challenge = createHash("sha256")
      .update(form.get("code_verifier") ?? "")
      .digest("base64url");
    if (asked?.get("client_id") !== CLIENT || asked.get("code_challenge") !== challenge) return undefined;
    const now = Math.floor(Date.now() / 1000);
    const claims = { iss: this.issuer, aud: CLIENT, iat: now, exp: now + 300, nonce: asked.get("nonce") };
    const message = `${encode({ alg: "ES256", kid: "one" })}.${encode({ ...claims, ...this.person })}`;
    const signature = sign("sha256", Buffer.from(message), { key: privateKey, dsaEncoding: "ieee-p1363" });
    return `${message}.${signature.toString("base64url")}`;
  }
}
