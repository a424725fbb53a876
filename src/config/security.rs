//! Whether passwords and tokens stay secret on the wire.

use std::collections::BTreeMap;

use super::fault::{Fault, Origin};
use super::kind::Value;
use super::tree::join;
use super::walk::{ClientValue, Values};
use crate::words::Code;

/// Checks how each cluster is logged in to.
pub(super) fn check(values: &Values, faults: &mut Vec<Fault>) {
    let allowed = match values.get("kafka.allow_insecure").map(|found| &found.value) {
        Some(Value::Flag(allowed)) => *allowed,
        // Its own fault is known.
        _ => true,
    };
    let kafka = Login::of(values, &["kafka"]);
    faults.extend(kafka.check(allowed));
    if values.client("sink").next().is_some() {
        let own_cluster = values.was_given("sink.bootstrap_servers");
        let sections: &[_] = if own_cluster { &["sink"] } else { &["kafka", "sink"] };
        faults.extend(Login::of(values, sections).check(allowed).filter(Fault::is_of_sink));
    }
}

impl Fault {
    /// Where the sink takes over the properties of `[kafka.client]`, their fault is known.
    fn is_of_sink(&self) -> bool {
        self.key().starts_with("sink.")
    }
}

/// The client properties of one cluster, with the section that each was set in.
struct Login<'a> {
    properties: BTreeMap<&'a str, (&'static str, &'a ClientValue)>,
}

const MECHANISM: [&str; 2] = ["sasl.mechanism", "sasl.mechanisms"];
const SECRETS: [&str; 3] = ["sasl.password", "sasl.username", "sasl.oauthbearer.config"];

impl<'a> Login<'a> {
    fn of(values: &'a Values, sections: &[&'static str]) -> Self {
        let mut properties = BTreeMap::new();
        for section in sections.iter().copied() {
            // Two names of one property: the more specific section decides, by either.
            if MECHANISM.iter().any(|name| values.client(section).any(|(set, _)| set == *name)) {
                properties.retain(|name, _| !MECHANISM.contains(name));
            }
            properties.extend(values.client(section).map(|(name, v)| (name, (section, v))));
        }
        Self { properties }
    }

    fn get(&self, name: &str) -> Option<String> {
        self.properties.get(name).map(|(_, value)| value.value.to_lowercase())
    }

    fn check(&self, allowed: bool) -> impl Iterator<Item = Fault> {
        let protocol = self.get("security.protocol").unwrap_or_else(|| "plaintext".into());
        let mechanism = self.get("sasl.mechanism").or_else(|| self.get("sasl.mechanisms"));
        let sasl = protocol.starts_with("sasl_");
        let found = match mechanism.as_deref() {
            Some(_) if MECHANISM.iter().all(|name| self.properties.contains_key(name)) => {
                Some(self.two_mechanisms())
            }
            None if sasl => Some(self.no_mechanism()),
            Some("gssapi") => Some(self.kerberos()),
            Some("plain" | "oauthbearer") if protocol == "sasl_plaintext" && !allowed => {
                Some(self.in_the_clear())
            }
            _ if !sasl && !allowed => self.secret_without_sasl(),
            _ => None,
        };
        found.into_iter()
    }

    /// Names the first of `names` that is set, wherever that is.
    fn fault(&self, code: Code, names: &[&str], problem: &str, fix: &str) -> Fault {
        match names.iter().find_map(|name| Some((*name, self.properties.get(*name)?))) {
            Some((name, (section, value))) => {
                let key = join(&join(section, "client"), name);
                Fault::new(code, key, &value.origin, problem, fix)
            }
            None => Fault::new(code, "kafka.client", &Origin::Unset, problem, fix),
        }
    }

    fn no_mechanism(&self) -> Fault {
        self.fault(
            Code::ConfigMissing,
            &["security.protocol"],
            "expected `sasl.mechanism` beside a SASL protocol, got nothing; the client would use \
             Kerberos, which is not in this build",
            "set `\"sasl.mechanism\"` to `PLAIN`, `SCRAM-SHA-256`, `SCRAM-SHA-512` or \
             `OAUTHBEARER`",
        )
    }

    fn two_mechanisms(&self) -> Fault {
        self.fault(
            Code::ConfigConflict,
            &["sasl.mechanisms"],
            "expected one of `sasl.mechanism` and `sasl.mechanisms`, got both, which are one",
            "remove `\"sasl.mechanisms\"`",
        )
    }

    fn kerberos(&self) -> Fault {
        self.fault(
            Code::ConfigUnsupported,
            &MECHANISM,
            "names Kerberos, which is not in this build",
            "use `PLAIN`, `SCRAM-SHA-256`, `SCRAM-SHA-512` or `OAUTHBEARER`",
        )
    }

    fn in_the_clear(&self) -> Fault {
        self.fault(
            Code::ConfigInsecure,
            &["security.protocol"],
            "with this SASL mechanism would send the password or token in the clear",
            "use `sasl_ssl`, or set `kafka.allow_insecure = true` on a network you trust",
        )
    }

    fn secret_without_sasl(&self) -> Option<Fault> {
        SECRETS.iter().any(|name| self.properties.contains_key(name)).then(|| {
            self.fault(
                Code::ConfigInsecure,
                &SECRETS,
                "is set to `***` while `security.protocol` names no SASL protocol, so the \
                 connection would be neither logged in nor encrypted as meant",
                "set `\"security.protocol\" = \"sasl_ssl\"`, or `kafka.allow_insecure = true`",
            )
        })
    }
}
