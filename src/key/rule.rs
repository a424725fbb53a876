//! What the dedup key of a record is made of, as users write it.

use std::fmt;

/// How many steps a JSON pointer may have; it bounds the walk's recursion.
const MAX_POINTER_DEPTH: usize = 64;

/// What a dedup key is made of: one part, or several. Never none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRule {
    parts: Vec<KeyPart>,
}

/// One part of a dedup key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyPart {
    /// The record key's bytes.
    RecordKey,
    /// The value's bytes.
    Value,
    /// The bytes of the one header with this name.
    Header(String),
    /// The scalar at this JSON pointer (RFC 6901) in the value; tokens unescaped. Without tokens
    /// the whole document is the scalar.
    Json(Vec<String>),
}

/// Why a text is no key rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyRuleError {
    /// The text names no kind of part.
    #[error(
        "unknown key part `{0}`: expected `record-key`, `value`, `header:NAME` or `json:/POINTER`"
    )]
    UnknownPart(String),
    /// A header part without a name.
    #[error("key part `header:` has no name: expected `header:NAME`")]
    NoHeaderName,
    /// A path that is no JSON pointer, such as a dotted one.
    #[error("key part `json:{path}` is not a JSON pointer: expected `json:{pointer}`")]
    NotAPointer {
        /// The path as typed.
        path: String,
        /// The pointer that was probably meant.
        pointer: String,
    },
    /// A tilde that escapes nothing.
    #[error("key part `json:{0}` has a stray `~`: expected `~0` for a tilde or `~1` for a slash")]
    StrayTilde(String),
    /// A pointer with more steps than any sane document.
    #[error("JSON pointer of a key part: expected at most 64 steps, got {0}")]
    TooDeep(usize),
    /// A rule without parts.
    #[error("key rule is empty: expected at least one key part")]
    NoParts,
}

impl KeyPart {
    /// Reads a part as it stands in the config.
    ///
    /// Takes `record-key`, `value`, `header:NAME` or `json:/pointer` (RFC 6901; `~0` is a tilde
    /// and `~1` a slash inside a name). `json:` alone means the whole value is one JSON scalar.
    ///
    /// # Errors
    /// [`KeyRuleError`], with the spelling that was probably meant where there is one.
    pub fn parse(text: &str) -> Result<Self, KeyRuleError> {
        match text {
            "record-key" => return Ok(Self::RecordKey),
            "value" => return Ok(Self::Value),
            _ => {}
        }
        match text.split_once(':') {
            Some(("header", "")) => Err(KeyRuleError::NoHeaderName),
            Some(("header", name)) => Ok(Self::Header(name.to_owned())),
            Some(("json", pointer)) => parse_pointer(pointer).map(Self::Json),
            _ => Err(KeyRuleError::UnknownPart(text.to_owned())),
        }
    }
}

impl KeyRule {
    /// Makes the rule that takes all of `parts`, in this order.
    ///
    /// # Errors
    /// [`KeyRuleError::NoParts`] without any part.
    pub fn new(parts: Vec<KeyPart>) -> Result<Self, KeyRuleError> {
        if parts.is_empty() {
            return Err(KeyRuleError::NoParts);
        }
        Ok(Self { parts })
    }

    /// The rule that takes the record key, as does a config that names none.
    pub fn record_key() -> Self {
        Self { parts: vec![KeyPart::RecordKey] }
    }

    /// Returns the parts, at least one.
    pub fn parts(&self) -> &[KeyPart] {
        &self.parts
    }

    /// Returns the text that stands for this rule in stored state: a JSON array of its parts.
    ///
    /// Equal texts mean equal rules. It is part of the stored format and must not change.
    pub fn canonical(&self) -> String {
        let parts = self.parts.iter().map(|part| part.to_string().into()).collect();
        serde_json::Value::Array(parts).to_string()
    }
}

fn parse_pointer(pointer: &str) -> Result<Vec<String>, KeyRuleError> {
    if pointer.is_empty() {
        return Ok(Vec::new());
    }
    let Some(path) = pointer.strip_prefix('/') else {
        let (path, pointer) = (pointer.to_owned(), pointer_for(pointer));
        return Err(KeyRuleError::NotAPointer { path, pointer });
    };
    let tokens = path.split('/').map(unescape).collect::<Option<Vec<_>>>();
    let tokens = tokens.ok_or_else(|| KeyRuleError::StrayTilde(pointer.to_owned()))?;
    if tokens.len() > MAX_POINTER_DEPTH {
        return Err(KeyRuleError::TooDeep(tokens.len()));
    }
    Ok(tokens)
}

/// Returns the name a pointer token stands for, or `None` where a tilde escapes nothing.
fn unescape(token: &str) -> Option<String> {
    let mut name = String::with_capacity(token.len());
    let mut rest = token.chars();
    while let Some(c) = rest.next() {
        name.push(match c {
            '~' => match rest.next()? {
                '0' => '~',
                '1' => '/',
                _ => return None,
            },
            other => other,
        });
    }
    Some(name)
}

fn escape(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// Guesses the pointer for a path in another notation: `a.b`, `$.a[0].b`, `#/a/b`, `a/b`.
fn pointer_for(path: &str) -> String {
    let steps = path.trim_start_matches(['$', '#']).split(['.', '/', '[', ']']);
    steps.filter(|step| !step.is_empty()).map(|step| format!("/{}", escape(step))).collect()
}

/// Writes the part as [`KeyPart::parse`] reads it.
impl fmt::Display for KeyPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RecordKey => f.write_str("record-key"),
            Self::Value => f.write_str("value"),
            Self::Header(name) => write!(f, "header:{name}"),
            Self::Json(tokens) => {
                f.write_str("json:")?;
                tokens.iter().try_for_each(|token| write!(f, "/{}", escape(token)))
            }
        }
    }
}

/// Writes the rule for people; stored state takes [`KeyRule::canonical`].
impl fmt::Display for KeyRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.parts.as_slice() {
            [one] => one.fmt(f),
            _ => f.write_str(&self.canonical()),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn json(tokens: &[&str]) -> KeyPart {
        KeyPart::Json(tokens.iter().map(|&token| token.to_owned()).collect())
    }

    #[test]
    fn every_kind_of_part_is_read() {
        assert_eq!(KeyPart::parse("record-key"), Ok(KeyPart::RecordKey));
        assert_eq!(KeyPart::parse("value"), Ok(KeyPart::Value));
        assert_eq!(KeyPart::parse("header:a:b "), Ok(KeyPart::Header("a:b ".into())));
        assert_eq!(KeyPart::parse("json:"), Ok(json(&[])));
        assert_eq!(KeyPart::parse("json:/"), Ok(json(&[""])));
        assert_eq!(KeyPart::parse("json:/a.b/0"), Ok(json(&["a.b", "0"])));
        assert_eq!(KeyPart::parse("json:/a~1b/~01"), Ok(json(&["a/b", "~1"])));
    }

    #[test]
    fn a_path_in_another_notation_is_refused_with_the_pointer_it_means() {
        for (path, pointer) in [
            ("a.b", "/a/b"),
            ("$.items[0].id", "/items/0/id"),
            ("#/a/b", "/a/b"),
            ("a/b~c", "/a/b~0c"),
        ] {
            let error = KeyPart::parse(&format!("json:{path}")).unwrap_err();
            let (path, pointer) = (path.to_owned(), pointer.to_owned());
            assert_eq!(error, KeyRuleError::NotAPointer { path, pointer });
        }
        assert_eq!(
            KeyPart::parse("json:a.b").unwrap_err().to_string(),
            "key part `json:a.b` is not a JSON pointer: expected `json:/a/b`",
        );
    }

    #[test]
    fn faulty_parts_are_refused_by_name() {
        for text in ["", "key", "Record-Key", " value", "record-key:", "value:x", "avro:id"] {
            assert_eq!(KeyPart::parse(text), Err(KeyRuleError::UnknownPart(text.to_owned())));
        }
        assert_eq!(KeyPart::parse("header:"), Err(KeyRuleError::NoHeaderName));
        for text in ["/a~", "/a~2", "/~/b"] {
            let error = KeyRuleError::StrayTilde(text.to_owned());
            assert_eq!(KeyPart::parse(&format!("json:{text}")), Err(error));
        }
        let deep = format!("json:{}", "/a".repeat(65));
        assert_eq!(KeyPart::parse(&deep), Err(KeyRuleError::TooDeep(65)));
        assert!(KeyPart::parse(&format!("json:{}", "/a".repeat(64))).is_ok());
        assert_eq!(KeyRule::new(vec![]), Err(KeyRuleError::NoParts));
    }

    #[test]
    fn the_text_stored_for_a_rule_does_not_change() {
        let parts = ["record-key", "value", "header:a\",\"b", "json:", "json:/a~1b/ë"];
        let parts = parts.iter().map(|text| KeyPart::parse(text).unwrap()).collect();
        let rule = KeyRule::new(parts).unwrap();
        assert_eq!(
            rule.canonical(),
            r#"["record-key","value","header:a\",\"b","json:","json:/a~1b/ë"]"#,
        );
        assert_eq!(KeyRule::record_key().canonical(), r#"["record-key"]"#);
        assert_eq!(KeyRule::record_key().to_string(), "record-key");
    }

    fn any_part() -> impl Strategy<Value = KeyPart> {
        prop_oneof![
            Just(KeyPart::RecordKey),
            Just(KeyPart::Value),
            "[\\PC]{1,6}".prop_map(KeyPart::Header),
            "[a\",:]{1,3}".prop_map(KeyPart::Header),
            prop::collection::vec("[a~/01\",]{0,3}", 0..4).prop_map(KeyPart::Json),
            prop::collection::vec("\\PC{0,4}", 0..4).prop_map(KeyPart::Json),
        ]
    }

    proptest! {
        #[test]
        fn a_rule_comes_back_from_its_canonical_text(parts in prop::collection::vec(any_part(), 1..4)) {
            let rule = KeyRule::new(parts).unwrap();
            let texts: Vec<String> = serde_json::from_str(&rule.canonical()).unwrap();
            let parts = texts.iter().map(|text| KeyPart::parse(text).unwrap()).collect();
            prop_assert_eq!(KeyRule::new(parts).unwrap(), rule);
        }
    }
}
