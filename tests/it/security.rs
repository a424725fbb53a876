//! Brokers that refuse: certificates, passwords, permissions. Each refusal is named within seconds
//! by its code in one line, and costs no record.

use std::time::Duration;

use crate::support::config::Home;
use crate::support::needs_broker;
use crate::support::records::Plan;
use crate::support::secure::{Secure, secure};
use crate::support::sink::{Exit, Sink};
use crate::support::stage::{LEAVES_WITHIN, Stage};

/// Bad news must not keep anybody waiting.
const SAID_WITHIN: Duration = Duration::from_secs(20);

/// How many records there are to forward.
const RECORDS: usize = 200;

/// Makes topics that hold records to forward.
fn stage(secure: &Secure, stem: &str) -> Stage {
    let stage = Stage::set(&secure.broker, stem, 1);
    let plan = Plan { odd: false, duplicate_one_in: 4, ..Plan::over(1) };
    stage.writer_of(plan, 1).write(RECORDS);
    stage
}

/// Fails unless the program ends with `code`, and has forwarded and committed nothing.
fn assert_refused(stage: &Stage, home: &Home, code: &str) -> Exit {
    let exit = Sink::start(home).wait(SAID_WITHIN);
    exit.assert_failed(1, code);
    let committed = stage.admin.committed(&stage.group(), &stage.topic, 1).expect("it answers");
    assert!(committed.get(&0).is_none_or(|offset| *offset == 0), "committed {committed:?}");
    assert_eq!(stage.output_ends(), [0], "something was written");
    exit
}

/// Fails unless the program forwards everything.
fn assert_served(stage: &Stage, home: &Home) {
    let mut sink = Sink::start(home);
    stage.await_drained(&mut sink);
    sink.leave(LEAVES_WITHIN).assert_drained();
    assert_eq!(stage.assert_clean().read, u64::try_from(RECORDS).expect("few"));
}

/// A home that speaks TLS and trusts one authority.
fn tls(secure: &Secure, listener: &str, stage: &Stage, trusted: &std::path::Path) -> Home {
    let trusted = trusted.to_str().expect("a plain path");
    let home = secure.home(listener, &stage.topic).set_client("kafka", "security.protocol", "ssl");
    home.set_client("kafka", "ssl.ca.location", trusted)
}

#[test]
fn a_broker_with_a_certificate_of_the_wrong_authority_or_host_is_refused() {
    needs_broker!();
    let secure = secure();
    let stage = stage(secure, "tls");
    let wrong = tls(secure, "SSL", &stage, &secure.misnamed);
    assert_refused(&stage, &wrong, "E2002");
    let misnamed = tls(secure, "MISNAMED", &stage, &secure.misnamed);
    assert_refused(&stage, &misnamed, "E2002");
    assert_served(&stage, &tls(secure, "SSL", &stage, &secure.certificate));
}

#[test]
fn a_listener_that_speaks_another_protocol_is_named() {
    needs_broker!();
    let secure = secure();
    let stage = stage(secure, "protocol");
    let plain_to_tls = secure.home("SSL", &stage.topic);
    let exit = assert_refused(&stage, &plain_to_tls, "E2001");
    assert!(exit.error().contains("security.protocol"), "{}", exit.error());
    let tls_to_plain = Home::new(&secure.broker.address(), &stage.topic).set_client(
        "kafka",
        "security.protocol",
        "ssl",
    );
    let exit = assert_refused(&stage, &tls_to_plain, "E2001");
    assert!(exit.error().contains("PLAINTEXT"), "{}", exit.error());
}

#[test]
fn a_wrong_password_is_refused_and_the_right_one_is_not() {
    needs_broker!();
    let secure = secure();
    for (mechanism, user) in [("PLAIN", "plain"), ("SCRAM-SHA-256", "scram")] {
        let stage = stage(secure, user);
        let home = |password: &str| secure.login(&stage.topic, mechanism, user, password);
        let exit = assert_refused(&stage, &home("not-the-password"), "E2003");
        assert!(!exit.stderr.contains("not-the-password"), "the password was told");
        assert_served(&stage, &home(&format!("{user}-secret")));
    }
}

#[test]
fn a_way_to_log_in_that_the_broker_does_not_offer_is_refused() {
    needs_broker!();
    let secure = secure();
    let stage = stage(secure, "mechanism");
    let scram = secure.login(&stage.topic, "SCRAM-SHA-512", "scram", "scram-secret");
    assert_refused(&stage, &scram, "E2003");
    let token = secure
        .home("SASL", &stage.topic)
        .set("kafka.allow_insecure", true)
        .set_client("kafka", "security.protocol", "sasl_plaintext")
        .set_client("kafka", "sasl.mechanism", "OAUTHBEARER")
        .set_client("kafka", "enable.sasl.oauthbearer.unsecure.jwt", "true")
        .set_client("kafka", "sasl.oauthbearer.config", "principal=somebody");
    assert_refused(&stage, &token, "E2003");
}

/// Denies `user` something, sees it refused with a line that names `named`, gives it back, and
/// sees everything forwarded.
fn denied(user: &str, denials: impl Fn(&Stage) -> Vec<String>, named: impl Fn(&Stage) -> String) {
    let secure = secure();
    let stage = stage(secure, user);
    let grant = |way: &str| {
        let all = denials(&stage).into_iter().map(|denial| format!("{way} {user} {denial}"));
        let all: Vec<String> = all.collect();
        secure.grant(&all.iter().map(String::as_str).collect::<Vec<_>>());
    };
    grant("DENY");
    let home = secure.login(&stage.topic, "PLAIN", user, &format!("{user}-secret"));
    let exit = assert_refused(&stage, &home, "E2004");
    let named = named(&stage);
    assert!(exit.error().contains(&named), "`{named}` is not named: {}", exit.error());
    grant("UNDENY");
    assert_served(&stage, &home);
}

#[test]
fn a_source_that_may_not_be_read_is_named() {
    needs_broker!();
    let denials = |stage: &Stage| vec![format!("READ TOPIC {}", stage.topic)];
    denied("no-read", denials, |stage| format!("`{}`", stage.topic));
}

#[test]
fn an_output_that_may_not_be_written_is_named() {
    needs_broker!();
    let denials = |stage: &Stage| vec![format!("WRITE TOPIC {}", stage.output)];
    denied("no-write", denials, |stage| format!("`{}`", stage.output));
}

#[test]
fn a_group_that_may_not_be_joined_is_named() {
    needs_broker!();
    denied("no-group", |stage| vec![format!("READ GROUP {}", stage.group())], Stage::group);
}

#[test]
fn a_producer_that_may_neither_be_idempotent_nor_write_is_told_of_the_topic() {
    needs_broker!();
    // Whoever may write to any topic may write idempotently; without that it goes on plainly.
    let denials = |_: &Stage| {
        vec!["IDEMPOTENT_WRITE CLUSTER kafka-cluster".to_owned(), "WRITE TOPIC *".to_owned()]
    };
    denied("no-producer", denials, |stage| stage.output.clone());
}
