//! A browser without a window, driven by its own driver: the part of WebDriver that the tests need.
//! https://www.w3.org/TR/webdriver2/

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// The name of an element in answers.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";
/// So long something may take to be so.
const WAIT: Duration = Duration::from_secs(30);

pub struct Browser {
    driver: Child,
    port: u16,
    session: String,
    _profile: tempfile::TempDir,
}

impl Browser {
    pub fn start() -> Browser {
        let profile = tempfile::tempdir().expect("a temporary folder");
        let mut driver = Command::new("chromedriver")
            .arg("--port=0")
            .env("HOME", profile.path())
            // Where it leaves folders of its own.
            .env("TMPDIR", profile.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("chromedriver is installed: make setup-test");
        let said = BufReader::new(driver.stdout.take().expect("piped"));
        let line =
            said.lines().map_while(Result::ok).find(|line| line.contains("started successfully on port"));
        let line = line.expect("the driver says its port");
        let port = line.rsplit(' ').next().and_then(|word| word.trim_end_matches('.').parse().ok());
        let port = port.unwrap_or_else(|| panic!("a port in {line:?}"));
        let mut browser = Browser { driver, port, session: String::new(), _profile: profile };
        // Its own sandbox is not there for root; the pages are ours.
        let options = json!({"args": ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
            "--window-size=1400,900"]});
        let wanted = json!({"capabilities": {"alwaysMatch": {"goog:chromeOptions": options}}});
        let answer = browser.ask("POST", "/session", &wanted);
        browser.session = answer["sessionId"].as_str().expect("a session").to_owned();
        browser
    }

    /// What the driver answers to one request.
    fn ask(&self, method: &str, path: &str, body: &Value) -> Value {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("the driver listens");
        let body = if method == "POST" { body.to_string() } else { String::new() };
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .expect("it takes a request");
        let mut stream = BufReader::new(stream);
        let (mut line, mut length) = (String::new(), 0);
        loop {
            line.clear();
            stream.read_line(&mut line).expect("a head");
            if let Some((name, value)) = line.trim().split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse().expect("a length");
            }
            if line.trim().is_empty() {
                break;
            }
        }
        let mut text = vec![0; length];
        stream.read_exact(&mut text).expect("the whole answer");
        let answer: Value = serde_json::from_slice(&text).expect("JSON");
        let value = &answer["value"];
        assert!(value.get("error").is_none(), "{method} {path} {body}: {value}");
        value.clone()
    }

    fn post(&self, path: &str, body: &Value) -> Value {
        self.ask("POST", &format!("/session/{}{path}", self.session), body)
    }

    /// Shows a file, and waits until it says that it is ready.
    pub fn open(&self, page: &Path) {
        self.post("/url", &json!({"url": format!("file://{}", page.display())}));
        self.wait_for("document.body.dataset.ready == '1'");
    }

    /// The value of an expression of the page's script.
    pub fn value(&self, expression: &str) -> Value {
        self.post("/execute/sync", &json!({"script": format!("return {expression};"), "args": []}))
    }

    pub fn wait_for(&self, condition: &str) {
        let begin = Instant::now();
        while self.value(condition) != true {
            assert!(
                begin.elapsed() < WAIT,
                "{condition}: {}",
                self.value("document.body.innerText.slice(0, 600)")
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn element(&self, selector: &str) -> String {
        let found = self.post("/element", &json!({"using": "css selector", "value": selector}));
        found[ELEMENT].as_str().expect("an element").to_owned()
    }

    pub fn click(&self, selector: &str) {
        self.post(&format!("/element/{}/click", self.element(selector)), &json!({}));
    }

    /// Types into an element.
    pub fn keys(&self, selector: &str, keys: &str) {
        self.post(&format!("/element/{}/value", self.element(selector)), &json!({"text": keys}));
    }

    /// Moves the pointer to a place of the window, and presses its button there, if so.
    pub fn point(&self, [x, y]: [f64; 2], presses: bool) {
        let mut actions = vec![json!({"type": "pointerMove", "x": x as i64, "y": y as i64})];
        if presses {
            actions.push(json!({"type": "pointerDown", "button": 0}));
            actions.push(json!({"type": "pointerUp", "button": 0}));
        }
        self.post("/actions", &json!({"actions": [{"type": "pointer", "id": "mouse", "actions": actions}]}));
    }

    /// Lets the page believe that its reader prefers this.
    pub fn prefer(&self, feature: &str, value: &str) {
        let features = json!([{"name": feature, "value": value}]);
        let command = json!({"cmd": "Emulation.setEmulatedMedia", "params": {"features": features}});
        self.post("/goog/cdp/execute", &command);
    }

    /// Turns the wheel at a place of the window.
    pub fn wheel(&self, [x, y]: [f64; 2], by: i64) {
        let scroll = json!({"type": "scroll", "x": x as i64, "y": y as i64, "deltaX": 0, "deltaY": by});
        self.post("/actions", &json!({"actions": [{"type": "wheel", "id": "wheel", "actions": [scroll]}]}));
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !std::thread::panicking() && !self.session.is_empty() {
            self.ask("DELETE", &format!("/session/{}", self.session), &Value::Null);
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}
