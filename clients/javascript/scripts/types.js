// Makes protocol.d.ts of schemas/openrpc.json: `npm run types`. A test holds that the two say the same.

import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const DOCUMENT = new URL("../../../schemas/openrpc.json", import.meta.url);
const OUTPUT = new URL("../protocol.d.ts", import.meta.url);

// What values.js makes of the wire's values.
const SCALAR = "string | number | bigint | boolean | Uint8Array";
const VALUES = { scalar: SCALAR, value: `${SCALAR} | unknown[] | { [name: string]: unknown }` };

export function made() {
  const { components, methods, "x-pushes": pushes } = JSON.parse(readFileSync(DOCUMENT, "utf8"));
  const out = ["// Made by scripts/types.js from schemas/openrpc.json; not to be edited.\n"];
  const names = Object.keys(components.schemas).sort();
  // Results and pushes that are types of their own are said once.
  const known = new Map(names.map((name) => [JSON.stringify(components.schemas[name]), typeName(name)]));
  const typeOrName = (schema, indent) => known.get(JSON.stringify(schema)) ?? type(schema, indent);
  for (const name of names) {
    const schema = components.schemas[name];
    out.push(`${comment(schema, "")}export type ${typeName(name)} = ${VALUES[name] ?? type(schema, "")};\n`);
  }
  out.push("/** Parameters and result of each method, by its name. */", "export interface Methods {");
  for (const { name, params, result, summary } of methods) {
    const members = params.map((one) => member(one.name, one.schema, one.required, "    "));
    const given = members.length ? `{\n${members.join("\n")}\n    }` : "{}";
    out.push(`  /** ${summary} */`, `  ${JSON.stringify(name)}: {`, `    params: ${given};`, `    result: ${typeOrName(result.schema, "    ")};`, "  };");
  }
  out.push("}\n", "/** Parameters of each push, by its name. */", "export interface Pushes {");
  for (const push of pushes) {
    const { name, schema } = push.schema ? push : { name: push.name, schema: push.params[0].schema };
    out.push(`  ${JSON.stringify(name)}: ${typeOrName(schema, "  ")};`);
  }
  out.push("}", "");
  return out.join("\n");
}

/** `push.message.changed` → PushMessageChanged */
const typeName = (name) => name.replace(/(^|[._])([a-z])/g, (_, __, letter) => letter.toUpperCase());

const comment = ({ description }, indent) => (description ? `${indent}/** ${description.replace(/\s*\n\s*/g, " ")} */\n` : "");

function member(name, schema, required, indent) {
  return `${comment(schema, `${indent}  `)}${indent}  ${JSON.stringify(name)}${required ? "" : "?"}: ${type(schema, `${indent}  `)};`;
}

function type(schema, indent) {
  if (schema === true || Object.keys(schema).length === 0) return "unknown";
  const parts = [];
  if (schema.$ref) parts.push(typeName(schema.$ref.split("/").pop()));
  const choices = schema.anyOf ?? schema.oneOf;
  if (choices) parts.push(`(${[...new Set(choices.map((one) => type(one, indent)))].join(" | ")})`);
  if (schema.properties || schema.additionalProperties) parts.push(orNull(schema, object(schema, indent)));
  if (parts.length) return parts.join(" & ");
  if ("const" in schema) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((one) => JSON.stringify(one)).join(" | ");
  return [schema.type ?? "unknown"].flat().map((name) => plain(name, schema, indent)).join(" | ");
}

const orNull = ({ type: types }, text) => ([types].flat().includes("null") ? `(${text} | null)` : text);

function object({ properties, additionalProperties, required = [] }, indent) {
  if (!properties) return `{ [name: string]: ${type(additionalProperties, indent)} }`;
  const members = Object.keys(properties).map((name) => member(name, properties[name], required.includes(name), indent));
  return members.length ? `{\n${members.join("\n")}\n${indent}}` : "{}";
}

function plain(name, schema, indent) {
  if (name === "array") return schema.items ? `Array<${type(schema.items, indent)}>` : "unknown[]";
  if (name === "object") return "{ [name: string]: unknown }";
  return name === "integer" ? "number" : name;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) writeFileSync(OUTPUT, made());
