//! The page of `retrovane timeline`, in a browser: search, hover, zoom, copy, arrows; and the demo's bug found
//! by clicking through it.

mod bench;
mod browser;

use std::path::PathBuf;
use std::process::Command;

use bench::Bench;
use browser::Browser;
use serde_json::Value;

const ENTER: &str = "\u{e007}";
const CONTROL: &str = "\u{e009}";

/// A program of the sources, recorded and drawn.
struct Drawn {
    bench: Bench,
}

impl Drawn {
    fn of(source: &str, recording: &[&str]) -> Drawn {
        let bench = Bench::new();
        let program = bench.build(source, "-O0");
        let drawn = Drawn { bench };
        let mut record = drawn.retrovane(recording);
        record.arg("-o").arg(drawn.trace()).arg("--").arg(program);
        record.output().expect("it runs");
        let page = drawn.retrovane(&["timeline", "-q", "-o"]).arg(drawn.page()).arg(drawn.trace()).output();
        let page = page.expect("it runs");
        assert!(page.status.success(), "{}", String::from_utf8_lossy(&page.stderr));
        drawn
    }

    fn trace(&self) -> PathBuf {
        self.bench.trace()
    }

    fn page(&self) -> PathBuf {
        self.bench.path("page.html")
    }

    fn retrovane(&self, words: &[&str]) -> Command {
        self.bench.retrovane(words)
    }
}

/// Where an event is drawn in the window.
fn place_of(browser: &Browser, event: &Value) -> [f64; 2] {
    let place = browser.value(&format!(
        "[canvas.getBoundingClientRect().left + x({event} + .5), canvas.getBoundingClientRect().top + TOP + lane[{event}] * ROW + ROW / 2 - board.scrollTop]"
    ));
    [0, 1].map(|index| place[index].as_f64().expect("a number"))
}

fn search(browser: &Browser, text: &str) {
    browser.value("document.getElementById('search').value = ''");
    browser.keys("#search", text);
    browser.keys("#search", ENTER);
    browser.wait_for(&format!(
        "query == {text:?} && document.getElementById('hits').textContent.endsWith('found')"
    ));
}

#[test]
fn the_demos_bug_is_found_from_the_page() {
    let drawn = Drawn::of("demo/sessions.c", &["hunt", "-q", "--tries", "2000"]);
    let browser = Browser::start();
    browser.open(&drawn.page());
    search(&browser, "killed by SIGSEGV");
    assert_eq!(browser.value("hits.length"), 1);
    browser.wait_for("document.querySelector('#list .at') != null");
    browser.click("#list .at");
    browser.wait_for("document.getElementById('status').textContent.startsWith('copied: ')");
    // What was copied is pasted, as into a terminal.
    browser.value("document.getElementById('search').value = ''");
    browser.keys("#search", &format!("{CONTROL}v"));
    let command = browser.value("document.getElementById('search').value");
    let command = command.as_str().expect("text");
    let words: Vec<&str> = command.split(' ').collect();
    assert_eq!(words[..2], ["retrovane", "replay"], "{command}");
    let ran = drawn
        .retrovane(&words[1..])
        .args(["--batch", "--ex", "last-write cache->log", "--ex", "print bucket"])
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(said.contains("in add ") || said.contains(" add ("), "{command}: {said}");
    assert!(said.contains("= 128"), "{command}: {said}");
}

#[test]
fn the_page_is_looked_at() {
    let drawn = Drawn::of("tests/senders/meets.c", &["record", "-q"]);
    let browser = Browser::start();
    browser.open(&drawn.page());
    // Search leads to what is found, and the list shows it.
    search(&browser, "by inet 2");
    assert!(browser.value("hits.length").as_u64().is_some_and(|hits| hits >= 3), "written, read, and shown");
    browser.wait_for("document.querySelector('#list .at')?.textContent.includes('by inet 2')");
    // Hovering tells what it is, and who met whom.
    let received = browser.value("hits.find((hit) => about.names[name[hit]] == 'read')");
    let sent = browser.value("hits.find((hit) => about.names[name[hit]] == 'write')");
    // The wheel zooms: each turn is looked at before the next, which is for a place of the new view.
    loop {
        let wide = browser.value("to - from").as_f64().expect("a number");
        if wide < 60.0 {
            break;
        }
        browser.wheel(place_of(&browser, &received), -240);
        browser.wait_for(&format!("to - from < {wide}"));
    }
    browser.point(place_of(&browser, &received), false);
    browser.wait_for("document.getElementById('tip').style.display == 'block'");
    browser.wait_for("document.getElementById('tip').textContent.includes('sent by')");
    let tip = browser.value("document.getElementById('tip').textContent");
    assert!(
        tip.as_str().is_some_and(|tip| tip.contains("read(") && tip.contains("(inet socket): write(")),
        "{tip}"
    );
    // A click copies, and the arrow is that of the index.
    browser.point(place_of(&browser, &received), true);
    browser.wait_for(&format!("document.body.dataset.met == '<{sent}'"));
    browser.wait_for("document.getElementById('status').textContent.startsWith('copied: ')");
    // Keys: all of it again.
    browser.keys("#canvas", "0");
    browser.wait_for("from == 0 && to == count");
    // Nothing that went wrong was hidden.
    assert_eq!(
        browser.value("document.getElementById('status').textContent.includes('cannot be shown')"),
        false
    );
}

#[test]
fn it_is_led_by_keys_filtered_and_dark() {
    const RIGHT: &str = "\u{e014}";
    const DOWN: &str = "\u{e015}";
    let drawn = Drawn::of("tests/senders/meets.c", &["record", "-q"]);
    let browser = Browser::start();
    browser.open(&drawn.page());
    browser.keys("#canvas", "+");
    browser.keys("#canvas", "+");
    browser.wait_for("to - from < count / 3");
    let begin = browser.value("from").as_f64().expect("a number");
    browser.keys("#canvas", RIGHT);
    browser.wait_for(&format!("from > {begin}"));
    browser.value("choose(3, false)");
    browser.keys("#canvas", DOWN);
    browser.wait_for("chosen == 4");
    browser.keys("#canvas", "/");
    browser.wait_for("document.activeElement.id == 'search'");
    // The list is without what is filtered.
    let list = "document.getElementById('list').textContent";
    browser.wait_for(&format!("{list}.includes('openat(')"));
    browser.value("document.querySelectorAll('#classes input')[1].click()");
    browser.wait_for(&format!("!{list}.includes('openat(') && {list}.includes('mmap(')"));
    browser.value("document.querySelectorAll('#classes input')[1].click()");
    browser.wait_for(&format!("{list}.includes('openat(')"));
    let back = "getComputedStyle(document.body).backgroundColor";
    browser.prefer("prefers-color-scheme", "light");
    let light = browser.value(back);
    browser.prefer("prefers-color-scheme", "dark");
    browser.wait_for(&format!("{back} == 'rgb(13, 17, 23)'"));
    assert_ne!(light, "rgb(13, 17, 23)");
}

/// In an editor's view a click tells the editor where it leads.
#[test]
fn an_editor_is_told_of_clicks() {
    let drawn = Drawn::of("tests/senders/meets.c", &["record", "-q"]);
    let text = std::fs::read_to_string(drawn.page()).expect("the page");
    let editor = "<script>function acquireVsCodeApi() { return { postMessage: (place) => \
                  { document.body.dataset.told = JSON.stringify(place); } }; }</script>";
    let page = drawn.bench.path("in-editor.html");
    std::fs::write(&page, text.replacen("<script>", &format!("{editor}<script>"), 1)).expect("a copy");
    let browser = Browser::start();
    browser.open(&page);
    search(&browser, "by fifo");
    browser.wait_for("document.querySelector('#list .at') != null");
    browser.click("#list .at");
    browser.wait_for("document.body.dataset.told != undefined");
    let told = browser.value("JSON.parse(document.body.dataset.told)");
    assert!(told["trace"].as_str().is_some_and(|trace| trace.ends_with("trace")), "{told}");
    assert!(
        told["process"].is_u64() && told["at"].as_str().is_some_and(|at| at.parse::<u64>().is_ok()),
        "{told}"
    );
    assert_eq!(browser.value("document.getElementById('status').textContent.startsWith('copied')"), false);
}

#[test]
fn threads_have_rows_and_events_have_times() {
    let drawn = Drawn::of("tests/page/named_threads.c", &["record", "-q"]);
    let browser = Browser::start();
    browser.open(&drawn.page());
    assert_eq!(browser.value("rows.length"), 1);
    // A click on the process's name, which is left of all events.
    let name = browser
        .value("[canvas.getBoundingClientRect().left + 40, canvas.getBoundingClientRect().top + TOP + 8]");
    browser.point([0, 1].map(|index| name[index].as_f64().expect("a number")), true);
    browser.wait_for("rows.length == 5");
    let names = browser.value("rows.slice(1).map((row) => nameOf(row.process, row.thread)).join()");
    assert_eq!(names, "thread 1,thread 2 worker-1,thread 3 worker-2,thread 4 worker-3");
    assert_eq!(
        browser.value("rows.slice(1).reduce((sum, row) => sum + row.events.length, 0) == count"),
        true
    );
    assert_eq!(
        browser.value("processes[0].events.every((event) => rows[rowOf(event)].events.includes(event))"),
        true
    );
    // All have been logged in this order, the last one after the pause, at a time of today.
    assert_eq!(browser.value("times.every((time, event) => event == 0 || time >= times[event - 1])"), true);
    assert!(browser.value("times[count - 1]").as_u64().is_some_and(|last| (100..60_000).contains(&last)));
    assert_eq!(browser.value("/^\\d\\d:\\d\\d:\\d\\d\\.\\d{3}$/.test(when(count - 1))"), true);
    assert_eq!(browser.value("Math.abs(Date.now() - about.beganMs) < 600000"), true);
    // The key closes it again.
    browser.keys("#canvas", "t");
    browser.wait_for("rows.length == 1");
}

#[test]
fn a_million_events_are_drawn_at_once() {
    let drawn = Drawn::of("tests/senders/million.c", &["record", "-q"]);
    let bytes = std::fs::metadata(drawn.page()).expect("the page").len();
    let browser = Browser::start();
    browser.open(&drawn.page());
    assert!(browser.value("count").as_u64().is_some_and(|count| count > 1_000_000));
    let first_ms = browser.value("Number(document.body.dataset.firstMs)").as_f64().expect("a number");
    let middle = browser.value("[canvas.clientWidth / 2, canvas.clientHeight / 2 + 60]");
    let middle = [0, 1].map(|index| middle[index].as_f64().expect("a number"));
    let mut slowest: f64 = 0.0;
    for _ in 0..12 {
        browser.wheel(middle, -240);
        browser.value("paint()");
        slowest =
            slowest.max(browser.value("Number(document.body.dataset.paintMs)").as_f64().expect("a number"));
    }
    println!("page {bytes} bytes, first picture {first_ms:.0} ms, slowest zoom {slowest:.1} ms");
    assert!(bytes < 20_000_000, "{bytes} bytes");
    // Ten times what it takes where nothing else runs.
    assert!(first_ms < 10_000.0, "{first_ms} ms");
    assert!(slowest < 500.0, "{slowest} ms");
}
