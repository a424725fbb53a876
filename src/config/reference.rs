//! The example file and the reference, made from the table of settings.

use super::client::{Class, PROPERTIES};
use super::settings::{CLIENT_SECTIONS, Fallback, SECTIONS, Setting, Show, of_section};

/// How wide the comments of the example file are.
const WIDTH: usize = 92;

const HEAD: &str = "\
# Every setting of firstseen, with its default, its unit and what it means.
# Settings behind a `#` have no default; what they show is an example.
#
# Lengths of time: 500ms, 45s, 1m30s, 24h, 3d, 1w. Sizes: 512B, 64KiB, 64MiB, 1GiB.
# Secrets: any text may hold ${NAME} for an environment variable or ${file:/path} for the
# content of a file; a dollar sign is written $$.
# Any setting but those of [topics.NAME] can be overridden by an environment variable, such as
# FIRSTSEEN__STATE__DIR for `dir` in [state].
";

/// Returns the commented example file, whose values are the defaults.
pub fn example() -> String {
    // In a comment a dollar is a dollar; only values are looked at.
    let mut out = HEAD.to_owned();
    for (section, about) in SECTIONS {
        out.push_str(&format!("\n# {about}\n[{section}]\n"));
        for (at, setting) in of_section(section).enumerate() {
            if at > 0 {
                out.push('\n');
            }
            example_setting(setting, &mut out);
        }
        if CLIENT_SECTIONS.contains(&section) {
            example_client(section, &mut out);
        }
        if section == "dedup" {
            example_topic(&mut out);
        }
    }
    out
}

fn example_setting(setting: &Setting, out: &mut String) {
    comment(setting.doc, out);
    if let Some(bounds) = setting.kind.bounds() {
        comment(&format!("Allowed: {bounds}."), out);
    } else if let super::kind::Kind::Choice { .. } = setting.kind {
        comment(&format!("Allowed: {}.", setting.kind.expected()), out);
    }
    let (mark, value) = match setting.fallback {
        Fallback::Default(value) => ("", value),
        Fallback::Required(value) => {
            comment("Required.", out);
            ("", value)
        }
        Fallback::Nothing(value) => ("# ", value),
    };
    out.push_str(&format!("{mark}{} = {value}\n", setting.name()));
}

fn example_client(section: &str, out: &mut String) {
    let about = if section == "kafka" {
        "Any property of librdkafka passes through here, except those that would break what \
         firstseen promises. Values are never printed unless they are known to be harmless."
    } else {
        "The same for the output's producer and readers alone. These come over those of \
         `[kafka.client]`; with `sink.bootstrap_servers` they stand alone."
    };
    out.push('\n');
    comment(about, out);
    out.push_str(&format!(
        "[{section}.client]\n\
         # \"security.protocol\" = \"sasl_ssl\"\n\
         # \"sasl.mechanism\" = \"SCRAM-SHA-512\"\n\
         # \"sasl.username\" = \"firstseen\"\n\
         # \"sasl.password\" = \"${{KAFKA_PASSWORD}}\"\n"
    ));
}

fn example_topic(out: &mut String) {
    out.push('\n');
    comment(
        "A topic may have rules of its own: any key of `[dedup]`, and what is not given here is \
         taken from there.",
        out,
    );
    out.push_str("# [topics.payments]\n# key = \"json:/payment/id\"\n# window = \"72h\"\n");
}

fn comment(text: &str, out: &mut String) {
    let mut line = String::from("#");
    for word in text.split_whitespace() {
        if line.len() + word.len() >= WIDTH {
            out.push_str(&line);
            out.push('\n');
            line.truncate(1);
        }
        line.push(' ');
        line.push_str(word);
    }
    out.push_str(&line);
    out.push('\n');
}

const INTRODUCTION: &str = "\
# The config file

This page is made from the table that reads the config; a test keeps the two equal.
`config/firstseen.toml` is the same as a file to start from, `config/minimal.toml` the shortest one.

- The file is TOML. Every fault in it is listed at once, each with its key, its line and its fix
  ([codes](errors.md)). A name that is not known is refused, at every depth.
- Lengths of time carry a unit: `500ms`, `45s`, `1m30s`, `24h`, `3d`, `1w`. Sizes too: `512B`,
  `64KiB`, `64MiB`, `1GiB`.
- `firstseen run --config FILE --check-config` prints the config as it would be used, with secrets
  masked, and ends.

## Secrets

Any text value may hold `${NAME}` for an environment variable, or `${file:/path}` for the content of
a file without its last line break. It is replaced once, after the file was parsed, so a secret may
hold any character. A dollar sign is written `$$`. A variable that is unset or empty is a fault.
Put secrets into client properties: these are never printed. Other settings are.

## Environment

`FIRSTSEEN__SECTION__KEY` overrides a setting: `FIRSTSEEN__STATE__DIR=/var/lib/firstseen` sets `dir`
in `[state]`. For client properties each dot becomes an underscore:
`FIRSTSEEN__KAFKA__CLIENT__SASL_PASSWORD` sets `sasl.password` in `[kafka.client]`. Lists are separated
by commas. Values are taken as they are; `$` means nothing in them. `[topics.NAME]` cannot be overridden.
";

/// Returns the reference of all settings, as Markdown.
pub fn reference() -> String {
    let mut out = INTRODUCTION.to_owned();
    for (section, about) in SECTIONS {
        out.push_str(&format!("\n## `[{section}]`\n\n{about}\n\n"));
        out.push_str("| key | default | takes | meaning |\n| --- | --- | --- | --- |\n");
        for setting in of_section(section) {
            out.push_str(&reference_row(setting));
        }
        if section == "dedup" {
            out.push_str(
                "\n## `[topics.NAME]`\n\nRules for one source topic: any key of `[dedup]`. What is \
                 not given is taken from there.\n",
            );
        }
    }
    client_reference(&mut out);
    out
}

fn reference_row(setting: &Setting) -> String {
    let default = match setting.fallback {
        Fallback::Default(value) => format!("`{value}`"),
        Fallback::Required(_) => "required".to_owned(),
        Fallback::Nothing(_) => "none".to_owned(),
    };
    let mut takes = setting.kind.expected();
    if let Some(bounds) = setting.kind.bounds() {
        takes.push_str(&format!(", {bounds}"));
    }
    let meaning = match setting.show {
        Show::Rule(_) => format!("{} May differ by topic.", setting.doc),
        Show::Whole(_) => setting.doc.to_owned(),
    };
    let cell = |text: String| text.replace('|', "\\|");
    format!("| `{}` | {} | {} | {} |\n", setting.name(), cell(default), cell(takes), cell(meaning))
}

fn client_reference(out: &mut String) {
    out.push_str(
        "\n## `[kafka.client]` and `[sink.client]`\n\nProperties of librdkafka 2.12, passed on as \
         they are: `\"linger.ms\" = 5`. Those of `[sink.client]` hold for the output's producer and \
         readers and come over those of `[kafka.client]`. With `sink.bootstrap_servers` they stand \
         alone, so that the credentials of one cluster are never shown to another.\n\nPasswords \
         and tokens are refused where they would cross the network unencrypted (E1012), unless \
         `kafka.allow_insecure = true`.\n\nThese are printed with their value; the value of any \
         other is masked:\n\n",
    );
    let shown = PROPERTIES.iter().filter(|p| matches!(p.class, Class::Shown));
    let shown: Vec<_> = shown.map(|p| format!("`{}`", p.name)).collect();
    out.push_str(&shown.join(", "));
    out.push_str(".\n\nThese are refused (E1008), because they would break what firstseen ");
    out.push_str("promises:\n\n| property | why | instead |\n| --- | --- | --- |\n");
    for property in PROPERTIES {
        if let Class::Owned { why, fix } = property.class {
            out.push_str(&format!("| `{}` | {why} | {fix} |\n", property.name));
        }
    }
    out.push_str("\nThese are refused (E1011), because this build lacks what they need:\n\n");
    let absent = PROPERTIES.iter().filter(|p| matches!(p.class, Class::Absent { .. }));
    let absent: Vec<_> = absent.map(|p| format!("`{}`", p.name)).collect();
    out.push_str(&absent.join(", "));
    out.push_str(".\n");
}
