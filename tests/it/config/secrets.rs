//! Where a secret might show: `Debug`, faults, warnings, the printed config.

use std::fs;

use firstseen::config;
use firstseen::error::Error;

use super::{BASE, load_with, refused};

const CANARY: &str = "CaNaRy7331";

/// Client properties that may hold a secret.
const SECRETS: [&str; 10] = [
    "sasl.password",
    "sasl.username",
    "sasl.oauthbearer.config",
    "ssl.key.password",
    "ssl.key.pem",
    "ssl.key.location",
    "ssl.keystore.password",
    "ssl.keystore.location",
    "ssl.certificate.pem",
    "ssl.ca.pem",
];

/// What else the config says: nothing wrong, faults elsewhere, and the secret where it should not
/// be. Each is the rest of `[source]`, then more sections.
const OTHERS: [(&str, &str); 18] = [
    ("", ""),
    ("", "[state]\nmemory = 1\n"),
    ("", "[kafka.client.x]\ny = 1\n"),
    ("", "[sink]\nbootstrap_servers = \"other:1\"\n"),
    ("", "[sink]\ntopic = \"/${SECRET}\"\n"),
    ("", "[sink]\npartition = \"${SECRET}\"\n"),
    ("", "[sink]\ndead_letter_topic = \"${SECRET}\"\n"),
    ("", "[dedup]\nkey = \"${SECRET}\"\n"),
    ("", "[dedup]\nkey = [\"json:${SECRET}\"]\n"),
    ("", "[dedup]\nwindow = \"${SECRET}\"\n"),
    ("", "[dedup]\nrefresh = \"${SECRET}\"\n"),
    ("", "[dedup]\ndrop = [\"${SECRET}\"]\n"),
    ("", "[status]\nlisten = \"${SECRET}\"\n"),
    ("", "[state]\npassword = \"${SECRET}\"\n"),
    ("", "syntax \"${SECRET}\"\n"),
    ("topics = \"^(${SECRET}\"\n", ""),
    ("topics = [\"${SECRET}\"]\n", "[sink]\ntopic = \"{topic}\"\n"),
    ("topics = [\"${SECRET}\"]\n", "[topics.CaNaRy733]\nwindow = \"1s\"\n"),
];

/// Writes a config with the secret, as `value`, in every property of `section`.
fn with_secret(value: &str, section: &str, protocol: &str, (source, rest): (&str, &str)) -> String {
    let base = match source {
        "" => BASE.to_owned(),
        topics => BASE.replace("topics = [\"payments\"]\n", topics),
    };
    let mut text = format!(
        "{base}[{section}.client]\n\"security.protocol\" = \"{protocol}\"\n\
         \"sasl.mechanism\" = \"PLAIN\"\n"
    );
    for name in SECRETS {
        text.push_str(&format!("\"{name}\" = '{value}'\n"));
    }
    text + rest
}

/// Everything that is ever shown of a config, and whether it was accepted.
fn shown(text: &str, section: &str) -> (String, bool) {
    let env = [("SECRET", CANARY), ("FIRSTSEEN__KAFKA__CLIENT__SSL_KEY_PASSWORD", CANARY)];
    match load_with(text, &env) {
        Ok(config) => {
            let client =
                if section == "kafka" { &config.kafka.client } else { &config.sink.client };
            assert_eq!(client.get("sasl.password").map(String::as_str), Some(CANARY));
            let (print, warnings) = (config::print(&config), config::warnings(&config));
            (format!("{config:?} {config:#?} {print} {warnings:?}"), true)
        }
        Err(faults) => {
            let debug = format!("{faults:?}");
            let error = Error::from(faults);
            (format!("{debug} {error} {error:?}"), false)
        }
    }
}

#[test]
fn a_secret_shows_nowhere() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("secret");
    fs::write(&path, CANARY).unwrap();
    let file = format!("${{file:{}}}", path.display());
    let (mut accepted, mut tried) = (0, 0);
    for value in [CANARY, "${SECRET}", &file] {
        for section in ["kafka", "sink"] {
            for other in OTHERS {
                for protocol in ["sasl_ssl", "sasl_plaintext", "plaintext"] {
                    let text = with_secret(value, section, protocol, other);
                    let (shown, fine) = shown(&text, section);
                    assert!(!shown.contains(CANARY), "{shown}\nfrom\n{text}");
                    tried += 1;
                    accepted += usize::from(fine);
                }
            }
        }
    }
    assert!(accepted > 0 && accepted < tried, "{accepted} of {tried} accepted: one side untried");
}

#[test]
fn a_secret_in_an_owned_or_misspelt_property_shows_nowhere() {
    for name in ["acks", "group.id", "sasl.pasword", "password", "https.ca.pem", "ssl.key"] {
        for value in
            [format!("'{CANARY}'"), format!("['{CANARY}']"), format!("{{ a = '{CANARY}' }}")]
        {
            let error = refused(&format!("{BASE}[kafka.client]\n\"{name}\" = {value}\n"));
            assert!(!error.to_string().contains(CANARY), "{error}");
        }
    }
}
