//! The page that `timeline` writes, opened in a real browser without a window: it draws every access, tells on hover whose it is, and zooms.
mod common;
use common::*;
use correlator::Kind;
use serde_json::Value;
use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

const BROWSERS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

/// Does what a user does, in the page's own words, and leaves what it finds in the document.
const PROBE: &str = r#"<script>
"use strict";
const box = canvas.getBoundingClientRect();
const move = (x, y) => canvas.dispatchEvent(new MouseEvent("mousemove", { clientX: box.left + x, clientY: box.top + y, bubbles: true }));
const pixel = (x, y) => [...context.getImageData(x * devicePixelRatio, y * devicePixelRatio, 1, 1).data];
const result = { hover: [], drawn: [] };
for (const access of accesses) {
  const [x, y] = placed(access);
  move(x, y);
  result.hover.push(tip.style.display === "block" ? tip.textContent : null);
  result.drawn.push([-4, -3, -2, -1, 0, 1, 2, 3, 4].some(dx => pixel(x + dx, y)[3] > 0));
}
move(2, 2);
result.nothing = tip.style.display;
const before = view.to - view.from;
canvas.dispatchEvent(new WheelEvent("wheel", { clientX: box.left + 400, clientY: box.top + 50, deltaY: -100, bubbles: true, cancelable: true }));
result.zoomed = (view.to - view.from) / before;
canvas.dispatchEvent(new MouseEvent("dblclick", { bubbles: true }));
result.whole = (view.to - view.from) / before;
const report = document.createElement("pre");
report.id = "report";
report.textContent = btoa(unescape(encodeURIComponent(JSON.stringify(result))));
document.body.append(report);
</script></html>"#;

fn browser() -> Option<&'static str> {
    BROWSERS.into_iter().find(|name| {
        Command::new(name).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
    })
}

fn base64(text: &str) -> Vec<u8> {
    let digit = |byte: u8| b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".iter().position(|known| *known == byte);
    let digits: Vec<u32> = text.bytes().filter_map(digit).map(|digit| digit as u32).collect();
    let mut bytes = Vec::new();
    for group in digits.chunks(4) {
        let all = group.iter().fold(0, |all, digit| all << 6 | digit) << (6 * (4 - group.len()));
        bytes.extend(&all.to_be_bytes()[1..group.len()]);
    }
    bytes
}

#[test]
fn the_timeline_works_in_a_browser() {
    let Some(browser) = browser() else {
        // Past the test's captured output: whoever runs it shall see it.
        writeln!(std::io::stderr(), "not installed, left out: a browser ({})", BROWSERS.join(", ")).unwrap();
        return;
    };
    let mut history = History::new(2, 256 << 10);
    for step in 0..6u64 {
        let kind = [Kind::Write, Kind::Read, Kind::ReadWrite][step as usize % 3];
        history.run(&[Step {
            recording: step as usize % 2,
            object: 0,
            offset: 64 * (step % 3),
            len: 4,
            kind,
            value: step as u8,
            blocks: 1,
            whole: true,
            by_kernel: false,
        }]);
    }
    history.finish();
    let page = history.dir.path().join("page.html");
    let status =
        Command::new(env!("CARGO_BIN_EXE_shmem-inspect")).arg(&history.path).arg("timeline").arg("-o").arg(&page).status().unwrap();
    assert!(status.success());
    let text = fs::read_to_string(&page).unwrap();
    assert!(!text.contains("http://") && !text.contains("https://"), "it is complete in itself");
    fs::write(&page, text.replace("</html>", PROBE)).unwrap();
    let profile = history.dir.path().join("profile");
    let output = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--window-size=1200,800", "--dump-dom"])
        .arg(format!("--user-data-dir={}", profile.display()))
        .arg(format!("file://{}", page.display()))
        .stderr(Stdio::null())
        .output()
        .unwrap();
    let document = String::from_utf8(output.stdout).unwrap();
    let between = |start: &str, end: &str| document.split_once(start).and_then(|(_, rest)| rest.split_once(end)).map(|(found, _)| found);
    let report = between("<pre id=\"report\">", "</pre>").unwrap_or_else(|| panic!("the page's script failed: {document}"));
    let result: Value = serde_json::from_slice(&base64(report)).unwrap();
    assert_eq!(between("data-ready=\"", "\""), Some("6"));
    assert!(between("<div id=\"legend\">", "</div>").unwrap().contains("1: program (process 100)"));
    let hover: Vec<&str> = result["hover"].as_array().unwrap().iter().map(|text| text.as_str().expect("something is there")).collect();
    assert_eq!(hover.len(), 6);
    // In the order of rough time, which need not be the true one.
    let mut shown: Vec<&str> = hover.iter().map(|text| text.split_once(" at ").unwrap().0).collect();
    shown.sort();
    let expected = ["read", "read/write", "write"];
    let both = |number: u32| expected.map(|kind| format!("{number}: {kind} of 4"));
    assert_eq!(shown, [both(1), both(2)].concat());
    assert!(hover.iter().all(|text| text.contains("/memfd:test") && text.contains("time ") && text.contains("value ")), "{hover:?}");
    assert!(result["drawn"].as_array().unwrap().iter().all(|drawn| drawn == true), "{result}");
    assert_eq!(result["nothing"], "none");
    assert!((result["zoomed"].as_f64().unwrap() - 0.8).abs() < 1e-9, "{result}");
    assert_eq!(result["whole"], 1.0);
}
