// The one error of this package.
//
// Owns: how a refusal of the server, or of the client itself, looks to the app. Promises: `reason` to switch on and
// `retry`, as in the protocol. The client's own reasons are `connection_lost` (the call was sent and not answered:
// perhaps it was done), `closed` and `stopped`.

export class TidelineError extends Error {
  constructor(reason, message, { code = null, retry = false, ...data } = {}) {
    super(message);
    this.name = "TidelineError";
    this.reason = reason;
    this.code = code;
    this.retry = retry;
    this.data = data;
  }

  /** From the `error` member of an answer; one that is not as it must be counts as a fault of the server. */
  static of(error) {
    const data = error?.data ?? {};
    const reason = typeof data.reason === "string" ? data.reason : "internal_error";
    return new TidelineError(reason, String(error?.message ?? reason), { ...data, code: error?.code ?? null, retry: data.retry === true });
  }
}

/** The error of what is asked of a client that has ended. */
export const over = (state) => new TidelineError(state, `the client is ${state}`);

/** What a server did that the protocol rules out. The connection ends, and nothing of that frame is applied. */
export class Breach extends Error {}
