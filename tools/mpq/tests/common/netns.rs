//! Network namespaces.

use std::process::Command;

/// A namespace's name, which no other test and no other process has.
pub fn name(test: &str, side: char) -> String {
    format!("mpq-{}-{test}-{side}", std::process::id())
}

/// Runs a command, given as one line, that has to succeed.
pub fn command(line: &str) {
    let words: Vec<&str> = line.split_whitespace().collect();
    let output = Command::new(words[0])
        .args(&words[1..])
        .output()
        .expect(line);
    assert!(
        output.status.success(),
        "{line}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Bytes that came in on an interface.
pub fn received(space: &str, interface: &str) -> u64 {
    let output = Command::new("ip")
        .args(["netns", "exec", space, "cat"])
        .arg(format!("/sys/class/net/{interface}/statistics/rx_bytes"))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    text.trim().parse().unwrap()
}

pub fn delete(spaces: &[&String]) {
    for space in spaces {
        // Nothing more can be done about a failure.
        let _ = Command::new("ip").args(["netns", "del", space]).status();
    }
}
