//! Takes what nginx's module reads from a datagram out of its source, and compiles it without nginx.

use std::env;
use std::fs;
use std::path::Path;

const SOURCE: &str = "../tools/nginx/src/event/quic";

/// The lines of `text` from the one that begins with `from` up to the one that is `to`.
fn part<'a>(text: &'a str, from: &str, to: &str) -> &'a str {
    let start = text
        .find(from)
        .unwrap_or_else(|| panic!("there is no \"{from}\""));
    let rest = &text[start..];
    let end = rest
        .find(to)
        .unwrap_or_else(|| panic!("there is no \"{to}\""));
    &rest[..end + to.len()]
}

fn main() {
    let read = |file: &str| {
        let path = format!("{SOURCE}/{file}");
        println!("cargo:rerun-if-changed={path}");
        fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"))
    };
    println!("cargo:rerun-if-changed=nginx/shim.h");
    let header = read("ngx_event_quic_connection.h");
    let packet = read("ngx_event_quic_packet.c");
    let c = [
        "#include \"shim.h\"\n",
        part(
            &header,
            "#define NGX_QUIC_MAX_CID_LEN",
            "#define ngx_quic_long_pkt(first)         ((first) & 0x80)\n",
        ),
        part(
            &header,
            "typedef struct {\n    u_char                       *data;",
            "} ngx_quic_header_t;\n",
        ),
        part(&packet, "ngx_int_t\nngx_quic_parse_header(", "\n}\n"),
        include_str!("nginx/harness.c"),
    ];
    let out = env::var("OUT_DIR").expect("cargo sets it");
    let file = Path::new(&out).join("nginx_header.c");
    fs::write(&file, c.concat()).expect("a file of our own");
    cc::Build::new()
        .file(file)
        .include("nginx")
        .opt_level(1)
        .flag_if_supported("-fsanitize=undefined")
        .flag_if_supported("-fsanitize-undefined-trap-on-error")
        .compile("nginx_header");
}
