// Gives every request of the suite the Authorization header of MCP_AUTHORIZATION: the suite has no option for it.
// Its scenarios use the global fetch, node:http and undici.
import http from "node:http";
import { createRequire, syncBuiltinESMExports } from "node:module";

const value = process.env.MCP_AUTHORIZATION;

const fetch = globalThis.fetch;
globalThis.fetch = (input, init = {}) => {
  const headers = new Headers(init.headers ?? (input instanceof Request ? input.headers : {}));
  if (!headers.has("authorization")) headers.set("authorization", value);
  return fetch(input, { ...init, headers });
};

const request = http.request;
http.request = (...args) => {
  const made = request(...args);
  if (!made.hasHeader("authorization")) made.setHeader("authorization", value);
  return made;
};
syncBuiltinESMExports();

const undici = createRequire(process.argv[1])("undici");
const plain = undici.getGlobalDispatcher();
undici.setGlobalDispatcher(
  plain.compose((dispatch) => (options, handler) => {
    const given = options.headers ?? {};
    const headers = Array.isArray(given)
      ? Object.fromEntries(Array.from({ length: given.length / 2 }, (_, n) => [given[2 * n], given[2 * n + 1]]))
      : { ...given };
    if (!Object.keys(headers).some((name) => name.toLowerCase() === "authorization")) headers.authorization = value;
    return dispatch({ ...options, headers }, handler);
  }),
);
