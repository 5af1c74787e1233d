#!/bin/sh
# A tool argument of type `str | None` cannot be the text "[1, 2]" or "null".
#
# Guess: in a Model Context Protocol server made with the Python SDK, a tool with
#   the parameter `expression: str | None = None` takes every text that one with
#   `expression: str` takes, and nothing besides. The SDK's published schema for it
#   says so: a string or null.
# Seen: the same argument, a JSON string, for both tools:
#     text             str           str | None
#     x + 1            as it is      as it is
#     [1, 2]           as it is      refused: "Input should be a valid string"
#     {"id": 7}        as it is      refused, likewise
#     null             as it is      the tool gets None, without an error
#     12               as it is      as it is
#   Cause: before it checks the types, the SDK runs json.loads over each string
#   whose parameter is not exactly `str`, and keeps lists, objects and null. It is
#   meant for clients that send lists as text; a union with str is not left out
#   (reported to the SDK's repository as issue 3055).
# Software: mcp 2.3.0 (Python).
# Why it matters: a debugger's tools take expressions, conditions and memory
#   contents as text, and such parameters are often optional. "null" as an
#   expression is then evaluated as no expression at all, and an initializer in
#   brackets is refused, whatever the client does. A plain `str` with "" as the
#   default is safe.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --disable-pip-version-check mcp==2.3.0
cd "$dir"
cat > ask.py <<'PY'
import asyncio, json, logging, sys
from importlib.metadata import version
from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

logging.disable(logging.CRITICAL)
server = MCPServer("guess")


@server.tool()
def plain(expression: str) -> str:
    return repr(expression)


@server.tool()
def optional(expression: str | None = None) -> str:
    return repr(expression)


async def call(tool, text):
    try:
        result = await server.call_tool(tool, {"expression": text})
    except ToolError as error:
        return "refused" if "valid string" in str(error) else f"other error: {error}"
    return result.structured_content["result"]


async def main():
    schema = {tool.name: tool for tool in await server.list_tools()}["optional"].model_dump()
    schema = schema.get("input_schema") or schema["inputSchema"]
    kinds = [kind["type"] for kind in schema["properties"]["expression"]["anyOf"]]
    print("mcp", version("mcp"), "- types of the optional parameter in its schema:", kinds)
    failed = kinds != ["string", "null"]
    for text, wanted in (
        ("x + 1", repr("x + 1")), ("[1, 2]", "refused"), ('{"id": 7}', "refused"),
        ("null", "None"), ("12", repr("12")),
    ):
        by_plain, by_optional = await call("plain", text), await call("optional", text)
        print(f"{text:10} str: {by_plain:14} str | None: {by_optional}")
        if by_plain != repr(text) or by_optional != wanted:
            print(f"  CHANGED: expected {text!r} and {wanted}", file=sys.stderr)
            failed = True
    return failed


sys.exit(asyncio.run(main()))
PY
venv/bin/python ask.py
