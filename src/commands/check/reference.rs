//! `docs/check.md`, made from the list of findings.

use super::finding::Kind;

/// Returns the page.
pub(super) fn reference() -> String {
    let mut out = String::from(HEAD);
    for kind in Kind::ALL {
        out.push_str(&format!(
            "| `{}` | `{}` | {} | {} |\n",
            kind.name(),
            kind.setting(),
            kind.about(),
            kind.mend()
        ));
    }
    out.push_str(TAIL);
    out
}

const HEAD: &str = "\
# `firstseen check`

This page is made from the list of findings; a test keeps the two equal.

`firstseen check --config FILE` connects, asks, and prints which guarantee the config gives on these
brokers, what readers of the output see, and one line for each thing that was compared, the worst
first. `--json` prints the same as one object: `mode`, `guarantee`, `readers`, `counts`, and
`findings`, each with `name`, `on`, `setting`, `found`, `needed`, `fix`, `severity` and `accepted`.

| severity | meaning |
| --- | --- |
| `ok` | as it should be |
| `unknown` | nobody told; it may be any of the others |
| `weakens` | the promise holds, with a limit that it would not have otherwise |
| `breaks` | `run` would refuse to start, stop, or not keep the promise |

Exit codes: 0 all is ok, 3 something is not (E7006), 1 no broker answers or the check could not be
carried out, 2 usage or config. `--accept NAME` lives with a finding: it is shown in brackets and
counts no more. On a single development broker `--accept replication` is what you want.

## What it leaves behind

Nothing of yours is written, made, joined or committed. Where `delivery.mode` allows transactions,
the check takes one through its life, short of a commit, as `run` does to decide. Its id is
`<prefix of transactional ids>-firstseen-check`, and it holds no record, only an offset that is
aborted. The coordinator keeps that id in its own log until `transactional.id.expiration.ms` has passed. A
cluster that never had a group or a transaction makes its internal topics when first asked, as it
does for any client. The state's lock is looked at, not taken, and nothing is made in `state.dir`.

Run it before `run`, with the same user and on the same machine. While an instance of the same
config runs, `state-lock`, `status-port` and, with an `instance_id`, `group-members` tell of it.

## Findings

The commands in the report can be pasted. `User:NAME` stands for the principal: no broker tells a
client what it takes it for. Where the connection is secured, `client.properties` stands for a file
with your credentials. Settings of brokers that no command changes while they run are given as the
line for `server.properties`. Where an ACL denies, granting is not enough: `kafka-acls.sh --list`
shows it, and `--remove` takes it away.

| name | setting | what is compared | what mends it |
| --- | --- | --- | --- |
";

const TAIL: &str = "
## Readers of the output

| delivery | `read_committed` | `read_uncommitted` |
| --- | --- | --- |
| dedup | each first occurrence as soon as it is written; only somebody else's open transaction on the output holds it back | the same, and it is never held back |
| transactional | each first occurrence once, a checkpoint's records at a time; nothing new while a transaction is open, after a crash until it is aborted | each record at once, and those of aborted transactions besides: after a crash or an abort records come twice |

Clients differ in their default: Java's is `read_uncommitted`, librdkafka's `read_committed`.
";
