//! Scenario files: read or refused, with a line of the file in the error.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use mpq_sim::scenario::Document;

fuzz_target!(|text: &str| {
    // Traces are files: none is there.
    match Document::parse(Path::new("/nonexistent/x.toml"), text.to_owned(), &[], None) {
        Ok(document) => assert!(!document.cases.is_empty()),
        Err(error) => assert!(error.line <= 1 + text.matches('\n').count()),
    }
});
