//! What the binary prints when it fails: one line for each fault, once, at the top.
//!
//! A line is `error[E1005]: <what failed>: <why>: <why that>; fix: <what to do>`. It holds no line
//! break and no control character, whatever a broker or a file put into its texts.

mod advice;

use std::fmt;

use crate::config::Faults;
use crate::words::{Code, Coded};

pub use advice::advice;

/// The most characters of a line; texts from elsewhere may have any length.
const MAX_CHARS: usize = 2_000;

/// Why the process fails: one fault, or for a config every fault at once.
pub struct Error {
    first: Box<dyn Coded + Send + Sync>,
    others: Vec<Box<dyn Coded + Send + Sync>>,
}

impl Error {
    /// Returns the code of the first fault.
    pub fn code(&self) -> Code {
        self.first.code()
    }

    /// Returns the exit code of the process.
    pub fn exit_code(&self) -> u8 {
        self.code().exit_code()
    }

    /// Returns the line of each fault.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        std::iter::once(&self.first).chain(&self.others).map(|error| render(error.as_ref()))
    }
}

impl<E: Coded + Send + Sync + 'static> From<E> for Error {
    fn from(error: E) -> Self {
        Self { first: Box::new(error), others: Vec::new() }
    }
}

impl From<Faults> for Error {
    fn from(faults: Faults) -> Self {
        let mut all =
            faults.into_iter().map(|fault| Box::new(fault) as Box<dyn Coded + Send + Sync>);
        match all.next() {
            Some(first) => Self { first, others: all.collect() },
            None => Self::from(NoFault),
        }
    }
}

/// Every line, separated by line breaks.
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<_> = self.lines().collect();
        f.write_str(&lines.join("\n"))
    }
}

/// The same as `Display`: what is shown when `main` returns it or a test unwraps it.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A list of faults that has none: cannot be made, and still must not panic.
#[derive(Debug, thiserror::Error)]
#[error("the config failed without a fault")]
struct NoFault;

impl Coded for NoFault {
    fn code(&self) -> Code {
        Code::Internal
    }

    fn fix(&self) -> String {
        advice(Code::Internal).to_owned()
    }
}

/// Renders an error with everything that caused it as one line.
///
/// A cause that its effect already quotes is not said twice.
pub fn render(error: &dyn Coded) -> String {
    let mut chain = vec![error.to_string()];
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        let said = chain.last().is_some_and(|effect| effect.contains(&text));
        if !text.is_empty() && !said {
            chain.push(text);
        }
        cause = error.source();
    }
    let fix = error.fix();
    let tail = if fix.is_empty() { String::new() } else { format!("; fix: {}", one_line(&fix)) };
    format!("error[{}]: {}{tail}", error.code(), one_line(&chain.join(": ")))
}

/// Makes `text` safe for a terminal and a log: one line, nothing that moves the cursor, changes
/// colours or reverses the direction of reading, and no endless length.
pub fn one_line(text: &str) -> String {
    let mut out = String::new();
    let mut gap = false;
    for (at, c) in text.chars().enumerate() {
        if at == MAX_CHARS {
            out.push_str("...");
            break;
        }
        if c.is_control() || c.is_whitespace() {
            gap = true;
        } else if !is_invisible(c) {
            if gap && !out.is_empty() {
                out.push(' ');
            }
            gap = false;
            out.push(c);
        }
    }
    out
}

/// Marks that take no room: zero-width and direction characters.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// Returns the list of all codes, as Markdown.
pub fn reference() -> String {
    let mut out = String::from(
        "# Error codes\n\nThis page is made from the list of codes; a test keeps the two equal. \
         Every error is one line on standard error:\n\n```text\nerror[E1005]: config \
         `checkpoint.interval` (line 12): expected at least 100ms, got `5ms`; fix: use 100ms or \
         more\n```\n\nExit codes: 0 done or drained, 1 failed at run time, 2 usage or config, 3 an \
         audit or check found faults. A config with several faults prints a line for each.\n\n\
         | code | exit | what | what to do |\n| --- | --- | --- | --- |\n",
    );
    for code in Code::ALL {
        let (exit, title) = (code.exit_code(), code.title());
        out.push_str(&format!("| {code} | {exit} | {title} | {} |\n", advice(*code)));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct Told {
        text: &'static str,
        #[source]
        cause: Option<Box<Told>>,
    }

    impl Coded for Told {
        fn code(&self) -> Code {
            Code::TopicMissing
        }

        fn fix(&self) -> String {
            "create it".into()
        }
    }

    fn told(texts: &[&'static str]) -> Told {
        let mut texts = texts.iter().rev();
        let mut error = Told { text: texts.next().unwrap(), cause: None };
        for text in texts {
            error = Told { text, cause: Some(Box::new(error)) };
        }
        error
    }

    #[test]
    fn a_chain_is_one_line_and_repeats_nothing() {
        let error = told(&["failed to read topic `a`: timed out", "timed out", "no route"]);
        assert_eq!(
            render(&error),
            "error[E3001]: failed to read topic `a`: timed out: no route; fix: create it"
        );
    }

    #[test]
    fn text_from_a_broker_cannot_break_the_line_or_drive_the_terminal() {
        let error = told(&["bad\r\nerror[E0000]: forged\u{1b}[31m\u{202e}x\u{2028}y"]);
        let line = render(&error);
        assert_eq!(line, "error[E3001]: bad error[E0000]: forged [31mx y; fix: create it");
    }

    #[test]
    fn an_endless_text_is_cut() {
        assert_eq!(one_line(&"x".repeat(10_000)).len(), MAX_CHARS + 3);
    }

    #[test]
    fn each_fault_has_its_line_and_the_first_decides_the_exit_code() {
        let env = crate::config::Environment::default();
        let faults = crate::config::load_text("", "x", &env).unwrap_err();
        let error = Error::from(faults);
        assert_eq!(error.lines().count(), 3);
        assert_eq!(error.to_string().lines().count(), 3);
        assert_eq!((error.code(), error.exit_code()), (Code::ConfigMissing, 2));
    }
}
