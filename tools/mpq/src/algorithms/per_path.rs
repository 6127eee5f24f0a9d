//! quiche's own controllers, of which quiche says only the names.

use super::controller::Controller;
use super::controller::Scope;

/// quiche's own controllers.
pub fn controllers() -> impl Iterator<Item = Controller> {
    [RENO, CUBIC, BBR2].into_iter()
}

const RENO: Controller = Controller {
    name: "reno",
    scope: Scope::Quiche,
    summary: "NewReno as in quiche, on each path by itself",
    idea: "One packet more per round trip, half the window after a loss; paths share nothing.",
    source: "RFC 9002 section 7",
    formula: "ack: w += 1/w; loss: w = w/2",
    parameters: Vec::new(),
    use_when: "there is one path, or to compare with quiche without multipath",
    avoid_when: "paths may share a bottleneck: n paths take n shares of it",
    deviations: &[],
};

const CUBIC: Controller = Controller {
    name: "cubic",
    scope: Scope::Quiche,
    summary: "CUBIC as in quiche, on each path by itself; the default",
    idea: "The window is a cubic function of the time since the last loss, flat around the window \
           where that was, so its growth does not depend on the RTT.",
    source: "draft-ietf-tcpm-rfc8312bis-02, which became RFC 9438",
    formula: "ack: w towards 0.4 (t - K)^3 + w_max; loss: w = 0.7 w",
    parameters: Vec::new(),
    use_when: "paths are disjoint or there is one, and as what others on the network use",
    avoid_when: "paths may share a bottleneck, or queues must stay short",
    deviations: &["a reduction after few losses is undone if they turn out to be spurious"],
};

const BBR2: Controller = Controller {
    name: "bbr2_gcongestion",
    scope: Scope::Quiche,
    summary: "BBRv2 as in quiche, on each path by itself",
    idea:
        "Models the path by its bandwidth and its minimum RTT, and paces by the model instead of \
           filling the queue until packets are lost.",
    source: "Google's BBRv2 sender as ported to quiche, with some of BBRv3's gains",
    formula: "rate: gain times the greatest delivery rate of the last rounds; window: gain times \
              that rate times the minimum RTT",
    parameters: Vec::new(),
    use_when: "losses have other causes than full queues, or buffers are deep or very shallow",
    avoid_when: "paths may share a bottleneck, or what others get has to be fair and predictable",
    deviations: &["some gains of ProbeBW are BBRv3's"],
};
