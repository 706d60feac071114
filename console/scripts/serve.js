// Serves the console and the demo from these folders, and passes all else on to a running server: for developing, as
// the binary carries what it was built with.  node console/scripts/serve.js [PORT] [http://127.0.0.1:7070] [/PREFIX/=FOLDER …]
//
// Owns: nothing. Promises: the headers are those of the binary, so what works here works there. Must not: be served.

import { createReadStream, existsSync } from "node:fs";
import { createServer, request } from "node:http";
import { connect } from "node:net";
import { extname, normalize, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const [port = "7071", behind = "http://127.0.0.1:7070", ...more] = process.argv.slice(2);
const { hostname, port: behind_port } = new URL(behind);
const root = fileURLToPath(new URL("../..", import.meta.url));
const FOLDERS = [...more.map((one) => one.split("=")), ["/console/client/", "clients/javascript/"], ["/console/", "console/"], ["/demo/", "console/demo/"]];
const TYPES = { ".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml" };
const HEADERS = {
  "content-security-policy":
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; " +
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
  "x-content-type-options": "nosniff",
  "referrer-policy": "no-referrer",
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
  "cache-control": "no-store",
};

const server = createServer((asked, answer) => {
  const path = new URL(asked.url, "http://local").pathname;
  const found = FOLDERS.find(([prefix]) => path.startsWith(prefix));
  if (path === "/") return answer.writeHead(302, { location: "/console/" }).end();
  if (!found) return pass(asked, answer);
  const [prefix, folder] = found;
  const file = resolve(root, folder, `.${normalize(`/${path.slice(prefix.length) || "index.html"}`)}`);
  if (!existsSync(file) || !TYPES[extname(file)]) return answer.writeHead(404).end("no such file");
  answer.writeHead(200, { ...HEADERS, "content-type": TYPES[extname(file)] });
  createReadStream(file).pipe(answer);
});

const local = (headers) => ({ ...headers, host: `${hostname}:${behind_port}`, ...(headers.origin && { origin: behind }) });

function pass(asked, answer) {
  const { method, url, headers } = asked;
  const on = request({ hostname, port: behind_port, method, path: url, headers: local(headers) }, (came) => {
    answer.writeHead(came.statusCode, came.headers);
    came.pipe(answer);
  });
  on.on("error", () => answer.writableEnded || answer.writeHead(502).end("the server behind does not answer"));
  asked.pipe(on);
}

server.on("upgrade", (asked, socket) => {
  const on = connect(Number(behind_port), hostname, () => {
    const headers = Object.entries(local(asked.headers)).map(([name, value]) => `${name}: ${value}\r\n`);
    on.write(`${asked.method} ${asked.url} HTTP/1.1\r\n${headers.join("")}\r\n`);
    on.pipe(socket).pipe(on);
  });
  for (const [one, other] of [[on, socket], [socket, on]]) one.on("error", () => other.destroy()).on("close", () => other.destroy());
});

server.listen(Number(port), "127.0.0.1", () => console.log(`http://127.0.0.1:${server.address().port}/console/ in front of ${behind}`));
