// What VS Code needs of Retrovane beside the protocol: who speaks it, and a view of recordings.
//
// Deliberately absent: dependencies, a build step, anything that reaches a network.
"use strict";

const { execFile } = require("node:child_process");
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

/** From the menu of a variable: to who wrote it last. */
async function lastWrite(context) {
  const session = vscode.debug.activeDebugSession;
  const expression = context?.variable?.evaluateName;
  if (session === undefined || session.type !== "retrovane" || expression === undefined) {
    return;
  }
  const frame = vscode.debug.activeStackItem;
  try {
    await session.customRequest("evaluate", {
      expression: `last-write ${expression}`, context: "repl", frameId: frame?.frameId,
    });
  } catch (error) {
    vscode.window.showErrorMessage(`${expression}: ${error.message}`);
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
    vscode.debug.onDidTerminateDebugSession(() => view.refresh()),
  );
}

module.exports = { activate, deactivate() {} };
