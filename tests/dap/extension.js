// Loads the extension for VS Code with a stand-in for the editor: extension.js FOLDER RETROVANE. What its
// manifest names is there, and the adapter that it starts is ours. The view lists what was recorded, the timeline is the page of
// it, and clicks and buttons lead the debugger where they say.
"use strict";

const assert = require("node:assert");
const module_ = require("node:module");
const path = require("node:path");

const [folder, retrovane] = process.argv.slice(2);
const manifest = require(path.join(folder, "package.json"));
const commands = new Map();
const views = new Map();
const factories = new Map();
const started = [];
const asked = [];
const errors = [];
let panel;
class EventEmitter {
  event() {}
  fire() {}
}
const vscode = {
  EventEmitter,
  TreeItem: class { constructor(label) { this.label = label; } },
  ThemeIcon: class {},
  ViewColumn: { Active: -1 },
  DebugAdapterExecutable: class { constructor(command, args) { Object.assign(this, { command, args }); } },
  workspace: { getConfiguration: () => ({ get: () => retrovane }) },
  window: {
    registerTreeDataProvider: (id, view) => views.set(id, view),
    showErrorMessage: (text) => errors.push(text),
    createWebviewPanel: (_, title, __, options) => {
      panel = { title, options, webview: { onDidReceiveMessage: (clicked) => { panel.clicked = clicked; } } };
      return panel;
    },
  },
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
assert.deepStrictEqual([adapter.command, adapter.args], [retrovane, ["dap"]]);
const named = Object.values(contributes.menus).flat().map((one) => one.command);
assert.ok(named.every((command) => commands.has(command)));
commands.get("retrovane.open")({ name: "make-3" });
const { attach } = contributes.debuggers[0].configurationAttributes;
const own = Object.keys(started[0]).filter((name) => !["type", "request", "name"].includes(name));
assert.ok(own.every((name) => name in attach.properties), own.join());
const item = views.get("retrovane.recordings").getTreeItem({ name: "make-3", command: ["make", "-j2"], when: "now" });
assert.deepStrictEqual([item.label, item.description], ["make-3", "make -j2"]);

async function withRecordings() {
  const listed = await views.get("retrovane.recordings").getChildren();
  assert.ok(listed.length === 2 && listed[0].name.startsWith("true-"), JSON.stringify(listed));
  const [latest, before] = listed;
  await commands.get("retrovane.timeline")(before);
  assert.deepStrictEqual(errors, []);
  assert.ok(panel.title.includes(before.name) && panel.options.enableScripts, panel.title);
  const about = JSON.parse(/^const about = (.*);$/m.exec(panel.webview.html)[1]);
  assert.ok(about.trace.endsWith(before.name), about.trace);
  // A click, as the page tells of it: without a session one is started there.
  const place = { trace: before.name, process: 4711, at: "7" };
  await panel.clicked(place);
  const { trace, process: of, at } = started.pop();
  assert.deepStrictEqual([trace, of, at], [before.name, 4711, "7"]);
  // With one of that process it goes there.
  vscode.debug.activeDebugSession = {
    type: "retrovane",
    configuration: { type: "retrovane", trace: before.name, process: 4711 },
    customRequest: async (request, { expression, context }) => asked.push([request, expression, context].join(" ")),
  };
  await panel.clicked(place);
  await panel.clicked({ ...place, at: "7; shell id" });
  await commands.get("retrovane.begin")();
  await commands.get("retrovane.end")();
  await commands.get("retrovane.lastWrite")({ variable: { evaluateName: "n" } });
  const wanted = ["seek 7", "seek begin", "seek end", "last-write n"].map((words) => `evaluate ${words} repl`);
  assert.deepStrictEqual(asked, wanted);
  assert.deepStrictEqual(started.slice(1), []);
  // The session's own, and one that is not there.
  await commands.get("retrovane.timeline")();
  assert.ok(panel.title.includes(before.name));
  await commands.get("retrovane.timeline")({ name: "no-such-recording" });
  assert.ok(errors.length === 1 && errors[0].includes("no-such-recording"), errors.join());
  assert.ok(latest.name !== before.name);
}

withRecordings().then(() => console.log("the extension is whole"));
