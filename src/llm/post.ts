import http from "node:http";
import https from "node:https";
import { LlmError } from "./errors.ts";

// Node's own client, and not fetch: fetch has no time-out for connecting, and ends an answer that takes 300 s to begin.

export interface HttpAnswer {
  status: number;
  headers: http.IncomingHttpHeaders;
  text: string;
}

export interface PostLimits {
  /** Milliseconds for name, connection and TLS. */
  connect_timeout_ms: number;
  /** Milliseconds from the request's start to the answer's last byte. */
  answer_timeout_ms: number;
  max_bytes: number;
}

export interface Poster {
  /** @throws LlmError (`connection`, `cut`, `timeout`, `too_large`, `stopped`) */
  post(headers: Record<string, string>, body: string, signal?: AbortSignal): Promise<HttpAnswer>;
  /** Lets the idle connections go. */
  close(): void;
}

/** System errors that a second try will not change: a wrong address, a server that is not there, a certificate. */
const UNREACHABLE =
  /^(ENOTFOUND|ECONNREFUSED|EHOSTUNREACH|ENETUNREACH|EPROTO|ERR_TLS|ERR_SSL|CERT_|UNABLE_TO|SELF_SIGNED|DEPTH_ZERO)/;

/** @param cause of a `connection` failure */
export function isUnreachable(cause: unknown): boolean {
  const code = cause instanceof Error ? (cause as NodeJS.ErrnoException).code : undefined;
  return code !== undefined && UNREACHABLE.test(code);
}

/** Posts JSON to one address, over connections that are kept. */
export function createPoster(url: URL, limits: PostLimits): Poster {
  const { request, Agent } = url.protocol === "https:" ? https : http;
  const agent = new Agent({ keepAlive: true });

  function post(headers: Record<string, string>, body: string, signal?: AbortSignal): Promise<HttpAnswer> {
    return new Promise((resolve, reject) => {
      const call = request(url, {
        method: "POST",
        agent,
        headers: {
          accept: "application/json",
          "content-type": "application/json",
          "content-length": Buffer.byteLength(body),
          ...headers,
        },
      });
      let connecting: NodeJS.Timeout | undefined;
      const whole = setTimeout(
        () => fail(new LlmError("timeout", `no whole answer within ${limits.answer_timeout_ms} ms`)),
        limits.answer_timeout_ms,
      );
      const onAbort = () => fail(new LlmError("stopped", "the run was stopped"));

      function settle(): void {
        clearTimeout(whole);
        clearTimeout(connecting);
        signal?.removeEventListener("abort", onAbort);
      }
      function fail(error: LlmError): void {
        settle();
        reject(error);
        call.destroy();
      }
      const broken = (kind: "connection" | "cut") => (error: NodeJS.ErrnoException) => {
        const what = kind === "cut" ? "the answer was cut off" : "the connection failed";
        const failure = new LlmError(kind, `${what} (${error.code ?? error.message})`);
        failure.cause = error;
        fail(failure);
      };

      call.on("error", broken("connection"));
      if (signal?.aborted) return onAbort();
      signal?.addEventListener("abort", onAbort, { once: true });
      call.on("socket", (socket) => {
        if (!socket.connecting) return;
        connecting = setTimeout(
          () => fail(new LlmError("timeout", `no connection within ${limits.connect_timeout_ms} ms`)),
          limits.connect_timeout_ms,
        );
        socket.once(url.protocol === "https:" ? "secureConnect" : "connect", () => clearTimeout(connecting));
      });
      call.on("response", (response) => {
        const chunks: Buffer[] = [];
        let bytes = 0;
        response.on("error", broken("cut"));
        response.on("data", (chunk: Buffer) => {
          chunks.push(chunk);
          bytes += chunk.length;
          if (bytes > limits.max_bytes)
            fail(new LlmError("too_large", `the answer is larger than ${limits.max_bytes} bytes`));
        });
        response.on("end", () => {
          if (!response.complete) return fail(new LlmError("cut", "the answer was cut off"));
          settle();
          resolve({
            status: response.statusCode ?? 0,
            headers: response.headers,
            text: Buffer.concat(chunks).toString("utf8"),
          });
        });
      });
      call.end(body);
    });
  }

  return { post, close: () => agent.destroy() };
}
