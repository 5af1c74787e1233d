// What VS Code needs of Retrovane beside the protocol: who speaks it, a view of recordings, their timelines, and
// buttons that lead to places in them.
//
// Deliberately absent: dependencies, a build step, anything that reaches a network.
"use strict";

const { execFile } = require("node:child_process");
const { mkdtemp, readFile, rm } = require("node:fs/promises");
const os = require("node:os");
const path = require("node:path");
const vscode = require("vscode");

function program() {
  return vscode.workspace.getConfiguration("retrovane").get("path", "retrovane");
}

/** What `retrovane ls --json` says of recordings, the latest first. */
function recordings() {
  return new Promise((resolve) => {
    execFile(program(), ["ls", "--json"], { maxBuffer: 1 << 26 }, (error, stdout) => {
      resolve(error ? [] : JSON.parse(stdout).reverse());
    });
  });
}

class Recordings {
  constructor() {
    this.changed = new vscode.EventEmitter();
    this.onDidChangeTreeData = this.changed.event;
  }

  refresh() {
    this.changed.fire();
  }

  getTreeItem(recording) {
    const item = new vscode.TreeItem(recording.name);
    item.description = recording.command.join(" ");
    item.tooltip = `${recording.when}: ${item.description}`;
    item.iconPath = new vscode.ThemeIcon("history");
    item.command = { command: "retrovane.open", title: "Debug this recording", arguments: [recording] };
    return item;
  }

  getChildren() {
    return recordings();
  }
}

function open(recording) {
  return vscode.debug.startDebugging(undefined, {
    type: "retrovane", request: "attach", name: recording.name, trace: recording.name, stopOnEntry: true, at: "end",
  });
}

/** A recording's page, or that of the session's one, in a view: a click there leads the debugger to that place. */
async function timeline(recording) {
  const configuration = vscode.debug.activeDebugSession?.configuration;
  const trace = recording?.name ?? (configuration?.type === "retrovane" ? configuration.trace : undefined);
  const folder = await mkdtemp(path.join(os.tmpdir(), "retrovane-"));
  try {
    const page = path.join(folder, "page.html");
    const words = ["timeline", "--quiet", "--pictures", "none", "-o", page];
    await new Promise((resolve, reject) => {
      execFile(program(), trace === undefined ? words : [...words, trace], (error, _, stderr) =>
        error ? reject(new Error(stderr.trim() || error.message)) : resolve());
    });
    const text = await readFile(page, "utf8");
    const title = `Timeline: ${trace ?? "latest"}`;
    const panel = vscode.window.createWebviewPanel("retrovane.timeline", title, vscode.ViewColumn.Active, {
      enableScripts: true, retainContextWhenHidden: true, localResourceRoots: [],
    });
    panel.webview.onDidReceiveMessage((place) => goTo(trace, place));
    panel.webview.html = text;
  } catch (error) {
    vscode.window.showErrorMessage(`The timeline cannot be drawn: ${error.message}`);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** The debugger goes to a place of a recording: the one that looks at it, or a new one. */
async function goTo(trace, place) {
  const at = String(place.at);
  if (!/^(start|end|crash|[0-9]+(\+[0-9]+)?)$/.test(at) || !Number.isInteger(place.process)) {
    return;
  }
  const session = vscode.debug.activeDebugSession;
  const shown = session?.type === "retrovane" ? session.configuration : undefined;
  if (shown !== undefined && shown.trace === trace && shown.process === place.process) {
    await ask(`seek ${at}`);
    return;
  }
  await vscode.debug.startDebugging(undefined, {
    type: "retrovane", request: "attach", name: `${trace ?? "latest"} at ${at}`, trace, process: place.process,
    at, stopOnEntry: true,
  });
}

/** A command of ours, as in the debug console. */
async function ask(expression, frameId) {
  const session = vscode.debug.activeDebugSession;
  if (session?.type !== "retrovane") {
    return;
  }
  try {
    await session.customRequest("evaluate", { expression, context: "repl", frameId });
  } catch (error) {
    vscode.window.showErrorMessage(`${expression}: ${error.message}`);
  }
}

/** From the menu of a variable: to who wrote it last. */
async function lastWrite(context) {
  const expression = context?.variable?.evaluateName;
  if (expression !== undefined) {
    await ask(`last-write ${expression}`, vscode.debug.activeStackItem?.frameId);
  }
}

function activate(context) {
  const view = new Recordings();
  const executable = { createDebugAdapterDescriptor: () => new vscode.DebugAdapterExecutable(program(), ["dap"]) };
  context.subscriptions.push(
    vscode.debug.registerDebugAdapterDescriptorFactory("retrovane", executable),
    vscode.window.registerTreeDataProvider("retrovane.recordings", view),
    vscode.commands.registerCommand("retrovane.refresh", () => view.refresh()),
    vscode.commands.registerCommand("retrovane.open", open),
    vscode.commands.registerCommand("retrovane.lastWrite", lastWrite),
    vscode.commands.registerCommand("retrovane.timeline", timeline),
    vscode.commands.registerCommand("retrovane.begin", () => ask("seek begin")),
    vscode.commands.registerCommand("retrovane.end", () => ask("seek end")),
    vscode.debug.onDidTerminateDebugSession(() => view.refresh()),
  );
}

module.exports = { activate, deactivate() {} };
