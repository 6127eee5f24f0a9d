//! Impact factors: what a path adds to the throughput of all of them, and which paths are used for it.
//!
//! Omega of path i is 1 - TP_-i / TP_0 [MO eq. 5]: the share of the throughput that goes away with the
//! path. It is 1 if the others carry nothing, 0 if they carry as much alone, and negative if they carry
//! more: the path is in their way.

/// Omega from what was delivered with all paths and without one, both in the same unit. `None` where
/// nothing was delivered with all.
pub fn omega(all: f64, without: f64) -> Option<f64> {
    (all > 0.0).then(|| 1.0 - without / all)
}

/// The middle one of several measurements; the mean of two in the middle. `None` of nothing.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (low, high) = ((sorted.len().checked_sub(1)?) / 2, sorted.len() / 2);
    Some((sorted[low] + sorted[high]) / 2.0)
}

/// A path to choose from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Member {
    /// Omega; `None` before it is measured.
    pub omega: Option<f64>,
    /// Whether it is open, validated, not in doubt, and its address there.
    pub works: bool,
}

/// Which of the paths carry data: those whose Omega is above `least` [MO algorithm 1, line 11], those
/// that are not measured yet, and for each of the former that does not work the best one of the others.
/// Where each one is in the others' way, all carry but the worst; ours, as the paper had no such case.
pub fn chosen(members: &[Member], least: f64) -> Vec<bool> {
    let is_used = |member: &Member| member.omega.is_none_or(|omega| omega > least);
    let mut chosen: Vec<bool> = members.iter().map(is_used).collect();
    let is_missed = |m: &&Member| m.omega.is_some() && is_used(m) && !m.works;
    let broken = members.iter().filter(is_missed).count();
    let mut others: Vec<(f64, usize)> = members
        .iter()
        .enumerate()
        .filter(|(_, member)| !is_used(member) && member.works)
        .filter_map(|(i, member)| Some((member.omega?, i)))
        .collect();
    // The best first; of equals the one that was opened first.
    others.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    let replaced = match chosen.contains(&true) {
        true => broken,
        false => others.len().saturating_sub(1).max(1),
    };
    for (_, i) in others.into_iter().take(replaced) {
        chosen[i] = true;
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    /// [MO] tables 2 and 3: Omega by controller (CUBIC, OLIA, Hybla, Reno, Scalable, Vegas), and the
    /// controllers with which the path is used.
    const PUBLISHED: [(&str, [f64; 6], [u8; 6]); 16] = [
        (
            "K-C",
            [0.496, 0.376, 0.396, 0.469, 0.292, 0.356],
            [1, 1, 1, 1, 1, 1],
        ),
        (
            "K-CU",
            [0.248, 0.359, 0.174, -0.027, 0.19, 0.135],
            [1, 1, 1, 0, 1, 1],
        ),
        (
            "P-C",
            [-0.313, 0.098, -23.667, 0.174, -0.324, 0.086],
            [0, 1, 0, 1, 0, 1],
        ),
        (
            "P-CU",
            [0.184, 0.172, -0.366, -0.496, 0.24, 0.077],
            [1, 1, 0, 0, 1, 1],
        ),
        (
            "T-C",
            [0.032, -0.54, -40.713, 0.14, 0.057, 0.08],
            [1, 0, 0, 1, 1, 1],
        ),
        (
            "T-CU",
            [0.046, 0.105, -13.235, 0.085, 0.02, 0.057],
            [1, 1, 0, 1, 1, 1],
        ),
        (
            "U-C",
            [0.239, 0.305, 0.209, 0.235, 0.301, 0.325],
            [1, 1, 1, 1, 1, 1],
        ),
        (
            "U-CU",
            [0.063, 0.113, 0.258, 0.165, 0.072, 0.189],
            [1, 1, 1, 1, 1, 1],
        ),
        (
            "T-B",
            [-0.014, 0.017, -0.019, 0.061, -0.154, 0.014],
            [0, 1, 0, 1, 0, 1],
        ),
        (
            "T-P",
            [-0.063, 0.002, 0.001, 0.028, -0.03, -0.004],
            [0, 1, 1, 1, 0, 0],
        ),
        (
            "T-U",
            [-0.011, -0.047, -0.013, -0.034, 0.036, 0.027],
            [0, 0, 0, 0, 1, 1],
        ),
        (
            "U-B",
            [-0.046, 0.025, -0.025, 0.02, -0.008, 0.094],
            [0, 1, 0, 1, 0, 1],
        ),
        (
            "U-P",
            [-0.075, 0.054, -0.003, -0.001, 0.004, -0.13],
            [0, 1, 0, 0, 1, 0],
        ),
        (
            "U-U",
            [0.897, 0.916, 0.921, 0.92, 0.923, 0.852],
            [1, 1, 1, 1, 1, 1],
        ),
        (
            "P-D",
            [0.59, 0.61, 0.55, 0.57, 0.61, 0.58],
            [1, 1, 1, 1, 1, 1],
        ),
        (
            "T-D",
            [0.44, 0.46, 0.44, 0.43, 0.45, 0.44],
            [1, 1, 1, 1, 1, 1],
        ),
    ];

    /// The sites of [`PUBLISHED`]: SRL-HU, UNIS-HiN, UiT-HAW.
    const SITES: [std::ops::Range<usize>; 3] = [0..8, 8..14, 14..16];

    fn members(omegas: &[f64]) -> Vec<Member> {
        let member = |omega: &f64| Member {
            omega: Some(*omega),
            works: true,
        };
        omegas.iter().map(member).collect()
    }

    #[test]
    fn the_papers_subsets() {
        for site in SITES {
            for controller in 0..6 {
                let rows = &PUBLISHED[site.clone()];
                let omegas: Vec<f64> = rows.iter().map(|row| row.1[controller]).collect();
                let published: Vec<bool> = rows.iter().map(|row| row.2[controller] == 1).collect();
                assert_eq!(chosen(&members(&omegas), 0.0), published, "{controller}");
            }
        }
    }

    #[test]
    fn for_each_that_breaks_the_best_of_the_unused() {
        // Hybla over SRL-HU: K-C, K-CU, U-C and U-CU are used.
        let omegas: Vec<f64> = PUBLISHED[..8].iter().map(|row| row.1[2]).collect();
        let mut members = members(&omegas);
        let used = |members: &[Member]| -> Vec<&str> {
            let chosen = chosen(members, 0.0);
            let names = PUBLISHED.iter().map(|row| row.0);
            names
                .zip(chosen)
                .filter_map(|(n, c)| c.then_some(n))
                .collect()
        };
        members[0].works = false;
        assert_eq!(used(&members), ["K-C", "K-CU", "P-CU", "U-C", "U-CU"]);
        members[6].works = false;
        assert_eq!(
            used(&members),
            ["K-C", "K-CU", "P-CU", "T-CU", "U-C", "U-CU"]
        );
        // What does not work either replaces nothing.
        members[3].works = false;
        assert_eq!(
            used(&members),
            ["K-C", "K-CU", "P-C", "T-CU", "U-C", "U-CU"]
        );
        for i in [0, 3, 6] {
            members[i].works = true;
        }
        assert_eq!(used(&members), ["K-C", "K-CU", "U-C", "U-CU"]);
    }

    #[test]
    fn what_is_not_measured_is_used_and_zero_is_not() {
        let member = |omega| Member { omega, works: true };
        let members = [member(None), member(Some(0.0)), member(Some(-0.05))];
        assert_eq!(chosen(&members, 0.0), [true, false, false]);
        assert_eq!(chosen(&members, -0.1), [true, true, true]);
    }

    #[test]
    fn where_each_is_in_the_way_all_but_the_worst_are_used() {
        let mut members = members(&[-0.36, -0.51, -14.1]);
        assert_eq!(chosen(&members, -0.1), [true, true, false]);
        assert_eq!(chosen(&members[1..], -0.1), [true, false]);
        // Of those that work.
        members[1].works = false;
        assert_eq!(chosen(&members, -0.1), [true, false, false]);
    }

    #[test]
    fn factors() {
        assert_eq!(omega(10.0, 6.0), Some(0.4));
        assert_eq!(omega(10.0, 10.0), Some(0.0));
        assert_eq!(
            omega(1.0, 24.667).map(|o| (o * 1e3).round()),
            Some(-23_667.0)
        );
        assert_eq!(omega(0.0, 5.0), None);
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[0.3, -23.0, 0.1]), Some(0.1));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }
}
