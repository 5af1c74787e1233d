//! Files of nodes: each sees its own changes of the machine's files, and a lab goes without where that is refused.

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use suites::{Mode, RUN_TIME_MAX, Scratch, TestResult, Tool, User, run};

use crate::described::Lab;
use crate::{failed, run_lab, text};

const OF_ITS_OWN: Lab = Lab {
    name: "files_of_its_own",
    description: r#"
        [node.one]
        command = ["sh", "-c", """
            hostname > /tmp/retrovane-who; mkdir -p /var/tmp/retrovane/in; chmod 700 /var/tmp/retrovane; echo one >> /etc/retrovane-motd
            ls /dev/shm | wc -l; echo x > /dev/shm/retrovane; sleep 2
            cat /tmp/retrovane-who /etc/retrovane-motd; ls /var/tmp/retrovane; tail -1 /etc/hosts
        """]
        [node.two]
        command = ["sh", "-c", """
            sleep 1; cat /tmp/retrovane-who || ls /var/tmp/retrovane /dev/shm/retrovane; rm -f /etc/hosts; hostname > /tmp/retrovane-who
            sleep 2; cat /tmp/retrovane-who; cat /etc/hosts || sleep 2
        """]
        [[event]]
        at = "4s"
        do = "restart"
        node = "two"
    "#,
    code: 0,
    lines: &[
        "    0.000000 one | 0",
        "    1.000001 two | ! cat: /tmp/retrovane-who: No such file or directory",
        "    1.000001 two | ! ls: cannot access '/var/tmp/retrovane': No such file or directory",
        "    1.000001 two | ! ls: cannot access '/dev/shm/retrovane': No such file or directory",
        "    2.000000 one | one",
        "    2.000000 one | in",
        "    2.000000 one | fd00::2 two",
        "    3.000001 two | two",
        "    3.000001 two | ! cat: /etc/hosts: No such file or directory",
        // A disk outlives that its machine is without power.
        "    5.000000 two | two",
    ],
};

/// What `doctor` says of nodes of labs whose runs are kept there.
fn doctor_says(tool: &Tool, home: &Path) -> Result<String, String> {
    let outcome = run(tool.command(User::Current, home, &["doctor".into()]), RUN_TIME_MAX)?;
    let said = text(&outcome.stdout);
    let line = said.lines().find(|line| line.contains("nodes of labs"));
    line.map(str::to_owned).ok_or_else(|| failed("doctor should speak of labs", &outcome))
}

/// Nodes see their own changes, and nothing of that is left outside.
pub fn files_of_its_own(tool: &Tool) -> TestResult {
    run_lab(tool, &OF_ITS_OWN)?;
    let outside = ["/tmp/retrovane-who", "/var/tmp/retrovane", "/etc/retrovane-motd", "/dev/shm/retrovane"];
    match outside.iter().find(|path| Path::new(path).exists()) {
        Some(path) => Err(format!("a node's {path} is the machine's")),
        None => Ok(()),
    }
}

/// Why there can be no layers here.
pub fn missing(tool: &Tool) -> Option<String> {
    let scratch = Scratch::new("lab-layers").ok()?;
    let said = doctor_says(tool, scratch.path()).ok()?;
    (!said.contains("layers of files of their own")).then(|| "without layers of files (overlayfs)".to_owned())
}

/// Where the run's folder cannot hold layers, the lab says so and runs.
pub fn without_layers(tool: &Tool) -> TestResult {
    if tool.mode == Mode::Native {
        return Ok(());
    }
    let scratch = Scratch::new("lab-no-layers")?;
    for name in ["lower", "upper", "work", "home"] {
        scratch.fresh_directory(name)?;
    }
    let lab = "[node.a]\ncommand = [\"sh\", \"-c\", \"hostname > kept; cat kept\"]\n";
    fs::write(scratch.join("lower/lab.toml"), lab).map_err(|error| error.to_string())?;
    // A layer of a layer is none.
    let script = "mount --make-rprivate /; cd \"$1\" && mount -t overlay overlay \
        -o lowerdir=lower,upperdir=upper,workdir=work home && cd home && shift && \"$@\" doctor; \
        \"$@\" lab run -o run lab.toml";
    let words = ["unshare", "-m", "sh", "-c", script, "sh"];
    let mut launcher: Vec<OsString> = words.iter().map(OsString::from).collect();
    launcher.push(scratch.path().into());
    let command = tool.command_behind(&launcher, User::Current, &scratch.join("home"), &[]);
    let outcome = run(command, RUN_TIME_MAX)?;
    let said = text(&outcome.stdout);
    let all = [
        "layers of files (overlayfs) are refused",
        "not there in a lab: layers of files are refused here",
        "a   | a",
    ];
    match all.iter().all(|words| said.contains(words)) {
        true => Ok(()),
        false => Err(failed("the lab should run without layers", &outcome)),
    }
}
