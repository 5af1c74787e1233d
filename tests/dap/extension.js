// Loads the extension for VS Code with a stand-in for the editor: extension.js FOLDER. What its
// manifest names is there, and the adapter that it starts is ours.
"use strict";

const assert = require("node:assert");
const module_ = require("node:module");
const path = require("node:path");

const folder = process.argv[2];
const manifest = require(path.join(folder, "package.json"));
const commands = new Map();
const views = new Map();
const factories = new Map();
const started = [];
class EventEmitter {
  event() {}
  fire() {}
}
const vscode = {
  EventEmitter,
  TreeItem: class { constructor(label) { this.label = label; } },
  ThemeIcon: class {},
  DebugAdapterExecutable: class { constructor(command, args) { Object.assign(this, { command, args }); } },
  workspace: { getConfiguration: () => ({ get: (_, otherwise) => otherwise }) },
  window: { registerTreeDataProvider: (id, view) => views.set(id, view) },
  commands: { registerCommand: (id, run) => commands.set(id, run) },
  debug: {
    registerDebugAdapterDescriptorFactory: (type, factory) => factories.set(type, factory),
    onDidTerminateDebugSession() {},
    startDebugging: (_, configuration) => started.push(configuration),
  },
};
const load = module_._load;
module_._load = (name, ...rest) => (name === "vscode" ? vscode : load(name, ...rest));

require(path.join(folder, manifest.main)).activate({ subscriptions: [] });
const { contributes } = manifest;
assert.deepStrictEqual([...commands.keys()].sort(), contributes.commands.map((one) => one.command).sort());
assert.deepStrictEqual([...views.keys()], contributes.views.debug.map((one) => one.id));
assert.deepStrictEqual([...factories.keys()], contributes.debuggers.map((one) => one.type));
const adapter = factories.get("retrovane").createDebugAdapterDescriptor();
assert.deepStrictEqual([adapter.command, adapter.args], ["retrovane", ["dap"]]);
const named = Object.values(contributes.menus).flat().map((one) => one.command);
assert.ok(named.every((command) => commands.has(command)));
commands.get("retrovane.open")({ name: "make-3" });
const { attach } = contributes.debuggers[0].configurationAttributes;
const own = Object.keys(started[0]).filter((name) => !["type", "request", "name"].includes(name));
assert.ok(own.every((name) => name in attach.properties), own.join());
const item = views.get("retrovane.recordings").getTreeItem({ name: "make-3", command: ["make", "-j2"], when: "now" });
assert.deepStrictEqual([item.label, item.description], ["make-3", "make -j2"]);
console.log("the extension is whole");
