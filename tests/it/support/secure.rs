//! A broker that asks who is there: TLS, passwords, permissions.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use tempfile::TempDir;

use super::broker::{Broker, Extras};
use super::config::Home;

/// The password of the key stores.
const STORE: &str = "test-store-password";

/// A broker with listeners `SSL`, `MISNAMED` (its certificate is another host's) and `SASL`
/// (passwords over plain connections), and the usual one, whose clients may do all.
pub(crate) struct Secure {
    pub(crate) broker: Broker,
    /// The certificate that `SSL` shows, which is its own authority.
    pub(crate) certificate: PathBuf,
    /// The same of `MISNAMED`.
    pub(crate) misnamed: PathBuf,
    _directory: TempDir,
}

/// The users whose passwords the broker knows as they are; each one's is its name and `-secret`.
const USERS: [&str; 5] = ["plain", "no-read", "no-write", "no-group", "no-producer"];

/// Returns the broker that all tests share.
pub(crate) fn secure() -> &'static Secure {
    static SHARED: OnceLock<Secure> = OnceLock::new();
    SHARED.get_or_init(Secure::start)
}

impl Secure {
    fn start() -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory can be made");
        let at = |name: &str| directory.path().join(name);
        let certificate = key_pair(&at("ssl"), "dns:localhost,ip:127.0.0.1");
        let misnamed = key_pair(&at("misnamed"), "dns:elsewhere.example");
        let users: String =
            USERS.iter().map(|user| format!("user_{user}=\"{user}-secret\" ")).collect();
        let store = |listener: &str, path: PathBuf| {
            format!(
                "listener.name.{listener}.ssl.keystore.location={}
listener.name.{listener}.ssl.keystore.password={STORE}
listener.name.{listener}.ssl.keystore.type=PKCS12
",
                path.display()
            )
        };
        let properties = store("ssl", at("ssl.p12"))
            + &store("misnamed", at("misnamed.p12"))
            + &format!(
                "listener.name.sasl.sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256
listener.name.sasl.plain.sasl.jaas.config=\
org.apache.kafka.common.security.plain.PlainLoginModule required {users};
listener.name.sasl.scram-sha-256.sasl.jaas.config=\
org.apache.kafka.common.security.scram.ScramLoginModule required;
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS
"
            );
        let broker = Broker::start_with(Extras {
            listeners: vec![
                ("SSL", "SSL", "localhost"),
                ("MISNAMED", "SSL", "localhost"),
                ("SASL", "SASL_PLAINTEXT", "127.0.0.1"),
            ],
            properties,
        });
        let secure = Self { broker, certificate, misnamed, _directory: directory };
        secure.grant(&[
            "scram scram scram-secret",
            "ALLOW * ALL TOPIC *",
            "ALLOW * ALL GROUP *",
            "ALLOW * ALL CLUSTER kafka-cluster",
        ]);
        secure
    }

    /// Gives permissions or takes them away; see `tests/kafka/Grant.java`.
    pub(crate) fn grant(&self, what: &[&str]) {
        let program = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/kafka/Grant.java");
        let mut java = Command::new("java");
        java.args(["-cp", self.broker.class_path(), program]).arg(self.broker.address()).args(what);
        run(&mut java);
    }

    /// A home whose clients use a listener.
    pub(crate) fn home(&self, listener: &str, topic: &str) -> Home {
        Home::new(&self.broker.address_of(listener), topic)
            // What `localhost` is first differs between machines.
            .set_client("kafka", "broker.address.family", "v4")
    }

    /// A home whose clients log in.
    pub(crate) fn login(&self, topic: &str, mechanism: &str, user: &str, password: &str) -> Home {
        self.home("SASL", topic)
            .set("kafka.allow_insecure", true)
            .set_client("kafka", "security.protocol", "sasl_plaintext")
            .set_client("kafka", "sasl.mechanism", mechanism)
            .set_client("kafka", "sasl.username", user)
            .set_client("kafka", "sasl.password", password)
    }
}

/// Makes a key and a certificate that it signs itself, in `path` with `.p12`, and returns where
/// the certificate alone is.
fn key_pair(path: &Path, names: &str) -> PathBuf {
    let (store, certificate) = (path.with_extension("p12"), path.with_extension("pem"));
    let keytool = || {
        let mut keytool = Command::new("keytool");
        keytool.args([
            "-storetype",
            "PKCS12",
            "-storepass",
            STORE,
            "-alias",
            "broker",
            "-keystore",
        ]);
        keytool.arg(&store);
        keytool
    };
    run(keytool()
        .args(["-genkeypair", "-keyalg", "EC", "-dname", "CN=broker", "-validity", "30"])
        .args(["-ext", &format!("san={names}")]));
    run(keytool().args(["-exportcert", "-rfc", "-file"]).arg(&certificate));
    certificate
}

/// Runs a program of the JDK's.
fn run(command: &mut Command) {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output();
    let output = output.unwrap_or_else(|error| panic!("cannot run `{program}` (JDK 17): {error}"));
    let told = String::from_utf8_lossy(&output.stderr) + String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "`{program}` failed: {told}");
}
