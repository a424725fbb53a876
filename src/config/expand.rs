//! `${NAME}` and `${file:PATH}` in string values, replaced in one pass.
//!
//! What is put in is never looked at again, so a secret may hold any character. A dollar sign
//! is written `$$`; any other use of `$` is a fault, because a shell, a template or a password
//! pasted without thinking would otherwise be changed in silence.

use std::io::Read;

use super::Environment;

/// The most that a secret file may hold, in bytes.
const FILE_MAX_BYTES: u64 = 64 * 1024;

/// Why a reference cannot be replaced. Never holds the text around it, which may be secret.
#[derive(Debug)]
pub(super) struct Unusable {
    pub(super) problem: String,
    pub(super) fix: String,
    pub(super) cause: Option<std::io::Error>,
}

/// A string value after replacement.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Expanded {
    pub(super) text: String,
    /// Whether anything came from outside the file, so that the text may be secret.
    pub(super) foreign: bool,
}

/// Replaces every reference in `raw`.
pub(super) fn expand(raw: &str, env: &Environment) -> Result<Expanded, Unusable> {
    let mut out = Expanded { text: String::with_capacity(raw.len()), foreign: false };
    let mut rest = raw;
    while let Some((before, after)) = rest.split_once('$') {
        out.text.push_str(before);
        if let Some(tail) = after.strip_prefix('$') {
            out.text.push('$');
            rest = tail;
            continue;
        }
        let Some(tail) = after.strip_prefix('{') else {
            return Err(unusable("`$` starts nothing", "write `$$` for a dollar sign"));
        };
        let Some((name, tail)) = tail.split_once('}') else {
            return Err(unusable("`${` is not closed", "add the `}`, or write `$$` for a dollar"));
        };
        out.text.push_str(&resolve(name, env)?);
        out.foreign = true;
        rest = tail;
    }
    out.text.push_str(rest);
    Ok(out)
}

fn resolve(name: &str, env: &Environment) -> Result<String, Unusable> {
    match name.strip_prefix("file:") {
        Some(path) => from_file(path),
        None => from_variable(name, env),
    }
}

fn from_variable(name: &str, env: &Environment) -> Result<String, Unusable> {
    let first_is_digit = name.starts_with(|c: char| c.is_ascii_digit());
    let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if name.is_empty() || first_is_digit || !plain {
        return Err(unusable(
            "`${..}` holds neither a variable's name nor `file:PATH`",
            "write `${NAME}` or `${file:/path}`, and `$$` for a dollar sign",
        ));
    }
    let problem = match env.get(name) {
        None => "is not set",
        Some(value) if value.is_empty() => "is set but empty",
        Some(value) => match value.to_str() {
            Some(text) => return Ok(text.to_owned()),
            None => "is not valid UTF-8",
        },
    };
    Err(unusable(
        format!("environment variable `{name}` {problem}"),
        format!("set `{name}` for this process"),
    ))
}

fn from_file(path: &str) -> Result<String, Unusable> {
    let fault = |problem: &str, fix: &str| {
        unusable(format!("secret file `{path}` {problem}"), fix.to_owned())
    };
    let text = match read_limited(path) {
        Ok(bytes) if u64::try_from(bytes.len()).is_ok_and(|len| len > FILE_MAX_BYTES) => {
            return Err(fault(
                "is larger than 64 KiB",
                "name the file that holds the secret alone",
            ));
        }
        Ok(bytes) => String::from_utf8(bytes)
            .map_err(|_not_shown| fault("is not valid UTF-8", "store the secret as UTF-8 text"))?,
        Err(cause) => {
            let fix = "make the file readable for the user that runs firstseen";
            return Err(Unusable { cause: Some(cause), ..fault("cannot be read", fix) });
        }
    };
    let text = text.strip_suffix('\n').map_or(text.as_str(), |t| t.strip_suffix('\r').unwrap_or(t));
    if text.is_empty() {
        return Err(fault("is empty", "write the secret into the file"));
    }
    Ok(text.to_owned())
}

fn read_limited(path: &str) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(FILE_MAX_BYTES + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn unusable(problem: impl Into<String>, fix: impl Into<String>) -> Unusable {
    Unusable { problem: problem.into(), fix: fix.into(), cause: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env() -> Environment {
        Environment::from_pairs([("PW", "p$A{x}$$\"\n#"), ("EMPTY", ""), ("A", "1")])
    }

    #[test]
    fn a_secret_is_put_in_byte_for_byte_and_never_expanded_again() {
        let Ok(expanded) = expand("<${PW}>", &env()) else { panic!("refused") };
        assert_eq!(expanded.text, "<p$A{x}$$\"\n#>");
        assert!(expanded.foreign);
    }

    #[test]
    fn two_dollars_are_one_dollar() {
        let Ok(expanded) = expand("a$$b$${A}", &env()) else { panic!("refused") };
        assert_eq!(expanded, Expanded { text: "a$b${A}".into(), foreign: false });
    }

    #[test]
    fn every_other_dollar_is_refused() {
        for raw in ["a$b", "a$", "${A", "${}", "${1A}", "${A-default}", "$A", "${file}"] {
            assert!(expand(raw, &env()).is_err(), "{raw} was accepted");
        }
    }

    #[test]
    fn an_unset_and_an_empty_variable_are_told_apart() {
        let problem = |raw| expand(raw, &env()).map_err(|e| e.problem);
        assert_eq!(problem("${NO}"), Err("environment variable `NO` is not set".into()));
        assert_eq!(
            problem("${EMPTY}"),
            Err("environment variable `EMPTY` is set but empty".into())
        );
    }

    #[test]
    fn one_trailing_newline_of_a_secret_file_is_cut() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("secret");
        for (stored, expected) in
            [("pw\n", "pw"), ("pw\r\n", "pw"), ("pw\n\n", "pw\n"), (" p ", " p ")]
        {
            std::fs::write(&path, stored).unwrap();
            let Ok(expanded) = expand(&format!("${{file:{}}}", path.display()), &env()) else {
                panic!("{stored:?} was refused")
            };
            assert_eq!(expanded.text, expected);
        }
        std::fs::write(&path, "\n").unwrap();
        assert!(expand(&format!("${{file:{}}}", path.display()), &env()).is_err());
    }
}
