//! Rules about metrics, such as `0.8 <= flow.mp.goodput_mbps / flow.bg.goodput_mbps <= 1.25`.
//!
//! ```text
//! rule    = sum (("<" | "<=" | ">" | ">=") sum)+
//! sum     = product (("+" | "-") product)*       spaces around a minus: names may hold one
//! product = atom (("*" | "/") atom)*
//! atom    = number | metric ["@" selection] | "(" sum ")" | ("min" | "max") "(" sum ("," sum)* ")"
//! ```
//!
//! `metric@cc=lia` is the metric of the case that has this value and else those of the case at hand.

use std::fmt;
use std::str::FromStr;

/// What a rule is evaluated against: the value of a metric, in the case at hand or, with a
/// selection, in the one that differs from it as the selection says.
pub trait Metrics {
    /// The value, or why there is none.
    fn value(&self, metric: &str, other: Option<&Selection>) -> Result<f64, String>;
}

/// Comparisons in a row, all of which have to hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    first: Sum,
    rest: Vec<(Comparison, Sum)>,
}

/// A rule's outcome.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// Whether every comparison holds.
    pub holds: bool,
    /// The compared values, from left to right.
    pub values: Vec<f64>,
}

impl Rule {
    /// Whether the rule holds. An error says which metric is missing.
    pub fn evaluate(&self, metrics: &dyn Metrics) -> Result<Verdict, String> {
        let mut values = vec![self.first.value(metrics)?];
        let mut holds = true;
        for (comparison, sum) in &self.rest {
            let (left, right) = (values[values.len() - 1], sum.value(metrics)?);
            // NaN, of 0 / 0, holds nowhere.
            holds &= match comparison {
                Comparison::Less => left < right,
                Comparison::LessOrEqual => left <= right,
                Comparison::Greater => left > right,
                Comparison::GreaterOrEqual => left >= right,
            };
            values.push(right);
        }
        Ok(Verdict { holds, values })
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Comparison {
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Clone, Debug, PartialEq)]
enum Sum {
    Number(f64),
    Metric(String, Option<Selection>),
    Binary(char, Box<Sum>, Box<Sum>),
    Extreme(bool, Vec<Sum>),
}

impl Sum {
    fn value(&self, metrics: &dyn Metrics) -> Result<f64, String> {
        Ok(match self {
            Sum::Number(number) => *number,
            Sum::Metric(name, other) => metrics.value(name, other.as_ref())?,
            Sum::Binary(operator, a, b) => {
                let (a, b) = (a.value(metrics)?, b.value(metrics)?);
                match operator {
                    '+' => a + b,
                    '-' => a - b,
                    '*' => a * b,
                    _ => a / b,
                }
            }
            Sum::Extreme(is_max, sums) => {
                let values = sums.iter().map(|sum| sum.value(metrics));
                let values = values.collect::<Result<Vec<f64>, String>>()?;
                let better = if *is_max { f64::max } else { f64::min };
                values.into_iter().reduce(better).unwrap_or(f64::NAN)
            }
        })
    }
}

/// Values that a case has: `cc=lia`, or `cc=lia,rate=30 Mbit/s`. A key may be written by its last
/// part; `case` is the name of a `[[case]]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection(pub Vec<(String, String)>);

impl FromStr for Selection {
    type Err = String;

    fn from_str(text: &str) -> Result<Selection, String> {
        let pairs = text.split(',').map(|pair| {
            let (key, value) = pair.split_once('=').ok_or_else(|| {
                format!("\"{pair}\": write key=value, for example cc=lia or case=scaled")
            })?;
            Ok((key.trim().to_owned(), value.trim().to_owned()))
        });
        pairs.collect::<Result<_, String>>().map(Selection)
    }
}

impl fmt::Display for Selection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pairs: Vec<String> = self.0.iter().map(|(k, v)| format!("{k}={v}")).collect();
        f.write_str(&pairs.join(","))
    }
}

impl FromStr for Rule {
    type Err = String;

    fn from_str(text: &str) -> Result<Rule, String> {
        let mut parser = Parser {
            text,
            at: 0,
            depth: 0,
        };
        let first = parser.sum()?;
        let mut rest = Vec::new();
        loop {
            let comparison = match parser.peek() {
                None if rest.is_empty() => return Err(parser.error("a comparison is missing")),
                None => return Ok(Rule { first, rest }),
                Some('<') => (Comparison::Less, Comparison::LessOrEqual),
                Some('>') => (Comparison::Greater, Comparison::GreaterOrEqual),
                Some(_) => return Err(parser.error("expected <, <=, >, >= or the end")),
            };
            parser.at += 1;
            let comparison = if parser.text[parser.at..].starts_with('=') {
                parser.at += 1;
                comparison.1
            } else {
                comparison.0
            };
            rest.push((comparison, parser.sum()?));
        }
    }
}

/// Deeper nesting than any rule needs, and less than a stack holds.
const MOST_NESTED: usize = 32;

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

impl Parser<'_> {
    fn peek(&mut self) -> Option<char> {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
        self.text[self.at..].chars().next()
    }

    fn error(&self, what: &str) -> String {
        format!(
            "\"{}\": {what} at column {}; for example \"flow.mp.goodput_mbps >= 30\"",
            self.text,
            self.at + 1
        )
    }

    fn sum(&mut self) -> Result<Sum, String> {
        self.depth += 1;
        if self.depth > MOST_NESTED {
            return Err(self.error("too deeply nested"));
        }
        let mut left = self.product()?;
        while let Some(operator @ ('+' | '-')) = self.peek() {
            self.at += 1;
            left = Sum::Binary(operator, Box::new(left), Box::new(self.product()?));
        }
        self.depth -= 1;
        Ok(left)
    }

    fn product(&mut self) -> Result<Sum, String> {
        let mut left = self.atom()?;
        while let Some(operator @ ('*' | '/')) = self.peek() {
            self.at += 1;
            left = Sum::Binary(operator, Box::new(left), Box::new(self.atom()?));
        }
        Ok(left)
    }

    fn atom(&mut self) -> Result<Sum, String> {
        match self.peek() {
            Some('(') => {
                let mut inner = self.list()?;
                match inner.len() {
                    1 => Ok(inner.remove(0)),
                    _ => Err(self.error("one value is wanted in the parentheses")),
                }
            }
            Some(c) if c.is_ascii_digit() || c == '.' => {
                let word = self.word(|c| c.is_ascii_alphanumeric() || c == '.');
                let number = word.parse().map_err(|_| self.error("no number"))?;
                Ok(Sum::Number(number))
            }
            Some(c) if c.is_ascii_alphabetic() => {
                let word = self.word(|c| c.is_ascii_alphanumeric() || "_.-".contains(c));
                if (word == "min" || word == "max") && self.peek() == Some('(') {
                    return Ok(Sum::Extreme(word == "max", self.list()?));
                }
                if !self.text[self.at..].starts_with('@') {
                    return Ok(Sum::Metric(word, None));
                }
                self.at += 1;
                // Up to what can follow a value; values with spaces are not needed here.
                let selection = self.word(|c| !c.is_whitespace() && !"()<>*".contains(c));
                Ok(Sum::Metric(word, Some(selection.parse()?)))
            }
            _ => Err(self.error("expected a metric, a number or \"(\"")),
        }
    }

    /// `( sum, sum ... )`
    fn list(&mut self) -> Result<Vec<Sum>, String> {
        self.at += 1;
        let mut sums = vec![self.sum()?];
        loop {
            match self.peek() {
                Some(',') => self.at += 1,
                Some(')') => {
                    self.at += 1;
                    return Ok(sums);
                }
                _ => return Err(self.error("expected \")\"")),
            }
            sums.push(self.sum()?);
        }
    }

    fn word(&mut self, belongs: impl Fn(char) -> bool) -> String {
        let rest = &self.text[self.at..];
        let end = rest.find(|c| !belongs(c)).unwrap_or(rest.len());
        self.at += end;
        rest[..end].to_owned()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    struct Known;

    impl Metrics for Known {
        fn value(&self, metric: &str, other: Option<&Selection>) -> Result<f64, String> {
            match (metric, other.map(Selection::to_string).as_deref()) {
                ("a", None) => Ok(6.0),
                ("a", Some("cc=lia")) => Ok(2.0),
                ("b-1.c_d", None) => Ok(3.0),
                _ => Err(format!("no metric {metric}")),
            }
        }
    }

    fn verdict(rule: &str) -> Verdict {
        rule.parse::<Rule>().unwrap().evaluate(&Known).unwrap()
    }

    #[test]
    fn rules_worked_by_hand() {
        for (rule, holds) in [
            ("a <= 6", true),
            ("a < 6", false),
            ("a >= 4 * a@cc=lia", false),
            ("a >= 3 * a@cc=lia", true),
            ("1.9 < a / b-1.c_d <= 2", true),
            ("2 - 1 - 1 >= 0", true), // to the left: 0, not 2
            ("2 + 3 * 4 > 13.9", true),
            ("(2 + 3) * 4 > 19.9", true),
            ("max(a, b-1.c_d) - min(a, b-1.c_d) > 3", false),
            ("0 / 0 >= 0", false),
        ] {
            assert_eq!(verdict(rule).holds, holds, "{rule}");
        }
        assert_eq!(verdict("1 <= a / b-1.c_d < 3").values, [1.0, 2.0, 3.0]);
    }

    #[test]
    fn errors_say_where_and_what() {
        for (rule, hint) in [
            ("a", "comparison is missing at column 2"),
            ("a <=", "expected a metric"),
            ("a <= 5 %", "expected <"),
            ("(a < 5", "expected \")\""),
            ("1.2.3 < a", "no number"),
            ("a@lia < 5", "write key=value"),
        ] {
            let error = rule.parse::<Rule>().unwrap_err();
            assert!(error.contains(hint), "{rule}: {error}");
        }
        let rule: Rule = "x > 1".parse().unwrap();
        assert_eq!(rule.evaluate(&Known), Err("no metric x".into()));
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[a-z0-9@=<>()+*/., -]{0,60}") {
            let _ = text.parse::<Rule>();
        }

        #[test]
        fn deep_nesting_is_refused(n in 100usize..5000) {
            let rule = format!("{}a < 1", "(".repeat(n));
            prop_assert!(rule.parse::<Rule>().is_err());
        }
    }
}
