"""Makes tideline/calls.py and tideline/shapes.py from the server's schemas/openrpc.json.

Run it after the schemas have changed: `python make_calls.py`. With `--check` it fails where the files are not new.
"""

import json
import keyword
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
OPENRPC = json.loads((HERE.parents[1] / "schemas" / "openrpc.json").read_text())
SCHEMAS = OPENRPC["components"]["schemas"]
#: What the client does by itself, with other promises.
OWN = {"session.open", "session.renew", "subscribe", "unsubscribe", "stream.open", "stream.close", "message.append"}
PLAIN = {"integer": "int", "number": "float", "string": "str", "boolean": "bool", "array": "list[Any]", "object": "dict[str, Any]"}
shapes: dict[str, str] = {}


def camel(name):
    return "".join(part[:1].upper() + part[1:] for part in name.replace(".", "_").split("_"))


def named(schema):
    """An object with known members becomes a class; its name."""
    return schema.get("type") == "object" and "properties" in schema


def type_of(schema):
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        target = SCHEMAS[name]
        if name in ("entry", "patch"):
            return "dict[str, Any]"
        if name in ("value", "scalar"):
            return "Any"
        if named(target):
            shape(camel(name), target)
            return camel(name)
        return type_of(target)
    if "const" in schema:
        return f"Literal[{schema['const']!r}]"
    if "enum" in schema:
        return f"Literal[{', '.join(repr(one) for one in schema['enum'] if one is not None)}]"
    union = schema.get("anyOf") or schema.get("oneOf")
    if union:
        kinds = list(dict.fromkeys(type_of(one) for one in union if one.get("type") != "null"))
        return "Any" if "Any" in kinds else " | ".join(kinds)
    kind = schema.get("type")
    if isinstance(kind, list):
        kinds = [one for one in kind if one != "null"]
        return " | ".join(type_of({**schema, "type": one}) for one in kinds)
    if kind == "array" and "items" in schema:
        return f"list[{type_of(schema['items'])}]"
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"dict[str, {type_of(schema['additionalProperties'])}]"
    return PLAIN.get(kind, "Any")


def sentence(text):
    return " ".join((text or "").split()).replace("\\", "\\\\").rstrip(".") + "."


def shape(name, schema):
    """A TypedDict for an object; members that may be absent are in a class of their own."""
    if name in shapes:
        return
    shapes[name] = ""
    members = {one: type_of(value) for one, value in schema["properties"].items()}
    required = {one for one in members if one in schema.get("required", ())}
    about = sentence(schema.get("description"))
    if any(keyword.iskeyword(one) or not one.isidentifier() for one in members):
        inner = ", ".join(f'"{one}": "{kind}"' for one, kind in members.items())
        shapes[name] = f'#: {about}\n{name} = TypedDict("{name}", {{{inner}}}, total={len(required) == len(members)})\n'
        return

    def lines(which):
        return "".join(f"    {one}: {members[one]}\n" for one in members if one in which) or "    pass\n"

    rest = set(members) - required
    if not rest:
        shapes[name] = f'class {name}(TypedDict):\n    """{about}"""\n\n{lines(required)}'
    elif not required:
        shapes[name] = f'class {name}(TypedDict, total=False):\n    """{about}"""\n\n{lines(rest)}'
    else:
        base = f"class _{name}(TypedDict):\n{lines(required)}\n\n"
        shapes[name] = f'{base}class {name}(_{name}, total=False):\n    """{about}"""\n\n{lines(rest)}'


def call(method):
    """The Python method for one of the protocol."""
    name = method["name"].rpartition(".")[2]
    name += "_" if keyword.iskeyword(name) else ""
    result = method["result"]["schema"]
    if "$ref" in result:
        returns = type_of(result)
    elif named(result) and result["properties"]:
        returns = camel(method["name"]) + "Result"
        shape(returns, result)
    else:
        returns = "dict[str, Any]"
    given, sent = [], []
    for param in sorted(method["params"], key=lambda one: (not one.get("required"), one["name"] != "timeline")):
        plain = param["name"] + ("_" if keyword.iskeyword(param["name"]) else "")
        kind = type_of(param["schema"])
        if not param.get("required"):
            if "*" not in given:
                given.append("*")
            kind = kind if kind == "Any" else f"{kind} | None"
            given.append(f"{plain}: {kind} = None")
        else:
            given.append(f"{plain}: {kind}")
        sent.append(f'"{param["name"]}": {plain}')
    about = sentence(method["summary"])
    text = f"    async def {name}(self{''.join(', ' + one for one in given)}) -> {returns}:\n"
    text += f'        """{about}"""\n'
    # Results are what the schemas say; a call gives Any.
    return text + f'        return await self._call("{method["name"]}", _given({{{", ".join(sent)}}}))\n'


def made():
    spaces: dict[str, list[str]] = {}
    for method in OPENRPC["methods"]:
        if method["name"] not in OWN:
            spaces.setdefault(method["name"].rpartition(".")[0], []).append(call(method))
    top = spaces.pop("")
    classes = []
    for space, calls in spaces.items():
        classes.append(f'class {camel(space)}Calls(Space):\n    """`{space}.…`."""\n\n' + "\n".join(calls))
    fields = "".join(f"        self.{space} = {camel(space)}Calls(call)\n" for space in spaces)
    head = '"""Every method of the protocol, by its name. Made by make_calls.py from schemas/openrpc.json: do not edit.\n\n'
    head += 'docs/API.md says what each does. What is None is not sent.\n"""\n\n'
    imports = ", ".join(sorted(name for name in shapes if any(f"-> {name}:" in one or name in one for one in classes + top)))
    calls = head + "from __future__ import annotations\n\nfrom typing import Any, Awaitable, Callable, List, Literal\n\n"
    calls += f"from .shapes import ({imports})\n\nCall = Callable[[str, dict[str, Any]], Awaitable[Any]]\n\n\n"
    calls += "def _given(params: dict[str, Any]) -> dict[str, Any]:\n"
    calls += "    return {name: value for name, value in params.items() if value is not None}\n\n\n"
    calls += "class Space:\n    def __init__(self, call: Call) -> None:\n        self._call = call\n\n\n"
    calls += "\n\n".join(classes)
    calls += '\n\nclass Calls(Space):\n    """All of them."""\n\n    def __init__(self, call: Call) -> None:\n        super().__init__(call)\n'
    calls += fields + "\n" + "\n".join(top)
    head = '"""What the server\'s results look like. Made by make_calls.py from schemas/openrpc.json: do not edit."""\n\n'
    head += "from __future__ import annotations\n\nfrom typing import Any, Literal, TypedDict\n\n\n"
    return {"calls.py": calls.replace("list[", "List["), "shapes.py": head + "\n\n".join(shapes.values())}


if __name__ == "__main__":
    for name, text in made().items():
        path = HERE / "tideline" / name
        if "--check" in sys.argv[1:]:
            if path.read_text() != text:
                sys.exit(f"{path} is not what the schemas say: run make_calls.py")
        else:
            path.write_text(text)
