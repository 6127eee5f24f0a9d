//! Throughput over buffer size as a page: points that were measured, curves that were fitted, the
//! choice, and the size of equation 1.

use std::fmt::Write as _;

use super::model::Modelled;
use super::model::Observation;
use super::Report;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 420.0;
/// Around the axes: left, right, top, bottom.
const MARGIN: [f64; 4] = [56.0, 16.0, 16.0, 44.0];
/// Of pairs of controller and manager in turn; readable by those who see few colours, too.
const COLOURS: [&str; 8] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#999999",
];

/// From MiB and Mbit/s to the picture. Buffers are drawn by their logarithms.
struct Scale {
    mib: [f64; 2],
    mbps: f64,
}

impl Scale {
    fn x(&self, mib: f64) -> f64 {
        let [low, high] = self.mib.map(f64::ln);
        let part = (mib.ln() - low) / (high - low).max(1e-9);
        MARGIN[0] + part * (WIDTH - MARGIN[0] - MARGIN[1])
    }

    fn y(&self, mbps: f64) -> f64 {
        HEIGHT - MARGIN[3] - mbps / self.mbps * (HEIGHT - MARGIN[2] - MARGIN[3])
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

/// 1, 2 or 5 times a power of ten, so that some five fit.
fn step(of: f64) -> f64 {
    let power = 10f64.powf((of / 5.0).log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|n| n * power);
    steps
        .into_iter()
        .find(|step| of / step <= 6.0)
        .unwrap_or(power)
}

/// The picture.
pub fn svg(observations: &[Observation], curves: &[Modelled], report: &Report) -> String {
    let range = report.range_mib;
    let traditional = report.traditional_mib;
    let highest = observations
        .iter()
        .map(|o| o.mbps)
        .fold(report.highest_mbps, f64::max);
    let scale = Scale {
        mib: [range[0], range[1].max(traditional) * 1.05],
        mbps: (highest * 1.1).max(1e-3),
    };
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         font-family=\"sans-serif\" font-size=\"12\" role=\"img\" \
         aria-label=\"Throughput over buffer size\">\n"
    );
    let (left, right) = (MARGIN[0], WIDTH - MARGIN[1]);
    let (top, bottom) = (MARGIN[2], HEIGHT - MARGIN[3]);
    let every = step(scale.mbps);
    let mut at = 0.0;
    while at <= scale.mbps {
        let y = scale.y(at);
        let _ = writeln!(
            out,
            "<line x1=\"{left}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"#ddd\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{at}</text>",
            left - 6.0,
            y + 4.0
        );
        at = ((at + every) / every).round() * every;
    }
    let mut mib = 2f64.powi(scale.mib[0].log2().ceil() as i32);
    while mib <= scale.mib[1] {
        let x = scale.x(mib);
        let _ = writeln!(
            out,
            "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{top}\" y2=\"{bottom}\" stroke=\"#eee\"/>\
             <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{mib}</text>",
            bottom + 16.0
        );
        mib *= 2.0;
    }
    let _ = writeln!(
        out,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">buffer, MiB</text>\
         <text transform=\"translate(14 {:.1}) rotate(-90)\" text-anchor=\"middle\">Mbit/s</text>",
        (left + right) / 2.0,
        HEIGHT - 8.0,
        (top + bottom) / 2.0
    );

    let mut pairs: Vec<(&str, &str)> = Vec::new();
    for observation in observations {
        let pair = (&*observation.point.cc, &*observation.point.paths);
        if !pairs.contains(&pair) {
            pairs.push(pair);
        }
    }
    for (i, (cc, paths)) in pairs.iter().enumerate() {
        let colour = COLOURS[i % COLOURS.len()];
        let dash = if i >= COLOURS.len() {
            " stroke-dasharray=\"5 3\""
        } else {
            ""
        };
        let name = escape(&format!("{cc}, {paths}"));
        for o in observations
            .iter()
            .filter(|o| o.point.cc == *cc && o.point.paths == *paths)
        {
            let (x, y) = (scale.x(o.point.buffer_mib), scale.y(o.mbps));
            let _ = writeln!(
                out,
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\" fill=\"{colour}\">\
                 <title>{name}: {:.2} Mbit/s with {} MiB</title></circle>",
                o.mbps, o.point.buffer_mib
            );
        }
        let curve = curves.iter().find(|of| of.cc == *cc && of.paths == *paths);
        if let Some(of) = curve {
            let ratio = range[1] / range[0];
            let points = (0..=60).map(|n| range[0] * ratio.powf(f64::from(n) / 60.0));
            let points = points.map(|mib| {
                format!(
                    "{:.1},{:.1}",
                    scale.x(mib),
                    scale.y(of.curve.at(mib).max(0.0))
                )
            });
            let points: Vec<String> = points.collect();
            let _ = writeln!(
                out,
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\"{dash}/>",
                points.join(" ")
            );
        }
        let y = top + 14.0 * (i as f64 + 1.0);
        let _ = writeln!(
            out,
            "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3.5\" fill=\"{colour}\"/>\
             <text x=\"{:.1}\" y=\"{y:.1}\">{name}</text>",
            left + 12.0,
            y - 4.0,
            left + 20.0
        );
    }
    let (x, y) = (scale.x(report.buffer_mib), scale.y(report.mbps));
    let _ = writeln!(
        out,
        "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"8\" fill=\"none\" stroke=\"#c00\" stroke-width=\"2\"/>\
         <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"#c00\">chosen: {:.2} MiB</text>",
        y - 14.0,
        report.buffer_mib
    );
    let x = scale.x(traditional.max(range[0]));
    let _ = writeln!(
        out,
        "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{top}\" y2=\"{bottom}\" stroke=\"#555\" \
         stroke-dasharray=\"4 4\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">\
         equation 1: {traditional:.1} MiB</text>",
        x - 4.0,
        bottom - 8.0
    );
    out + "</svg>\n"
}

/// The page with the picture and what was printed.
pub fn page(svg: &str, report: &Report, text: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n\
         <title>mpq tune: {target}</title>\n\
         <style>body{{font-family:sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}}\
         pre{{background:#f6f6f6;padding:1rem;overflow:auto}}svg{{width:100%}}</style>\n\
         <h1>Throughput over buffer size: {target}</h1>\n{svg}<pre>{}</pre>\n</html>\n",
        escape(text),
        target = escape(&report.target),
    )
}
