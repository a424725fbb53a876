//! What a config allows and an operator should still know, each start.

use super::model::{Config, OnMissingState, StateAccess};

/// Returns a sentence fragment for each thing that is allowed but weakens safety.
pub fn warnings(config: &Config) -> Vec<String> {
    let mut out = Vec::new();
    for (section, client) in [("kafka", &config.kafka.client), ("sink", &config.sink.client)] {
        let is = |name: &str, weak: &str| {
            client.get(name).is_some_and(|value| value.eq_ignore_ascii_case(weak))
        };
        let key = |name: &str| format!("`{section}.client.\"{name}\"`");
        if is("enable.ssl.certificate.verification", "false") {
            let key = key("enable.ssl.certificate.verification");
            out.push(format!("{key} is false: any server can pose as the broker"));
        }
        if is("ssl.endpoint.identification.algorithm", "none") {
            let key = key("ssl.endpoint.identification.algorithm");
            out.push(format!("{key} is none: any holder of a certificate can pose as the broker"));
        }
        if is("enable.sasl.oauthbearer.unsecure.jwt", "true") {
            let key = key("enable.sasl.oauthbearer.unsecure.jwt");
            out.push(format!("{key} is true: tokens are unsigned; for tests only"));
        }
        if client.contains_key("debug") {
            out.push(format!("{} is set: client logs may show parts of records", key("debug")));
        }
    }
    if config.kafka.allow_insecure {
        out.push(
            "`kafka.allow_insecure` is true: passwords may cross the network unencrypted".into(),
        );
    }
    if config.state.on_missing_state == OnMissingState::Empty {
        out.push(
            "`state.on_missing_state` is empty: lost state repeats records instead of a rebuild"
                .into(),
        );
    }
    if ["/tmp", "/var/tmp", "/dev/shm"].iter().any(|dir| config.state.dir.starts_with(dir)) {
        out.push(
            "`state.dir` is where the system may sweep files away: a rebuild each time".into(),
        );
    }
    if config.status.listen.is_some_and(|address| !address.ip().is_loopback()) {
        out.push("`status.listen` is not a loopback address: anybody near can read metrics".into());
    }
    if config.status.state == StateAccess::Anywhere {
        out.push(
            "`status.state` is anywhere: whoever reaches it can ask whether a key was seen".into(),
        );
    }
    out
}
