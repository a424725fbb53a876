//! Apache Kafka's own jars, fetched once through Maven.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The version that the tests run unless told otherwise; also the default in `pom.xml`.
const DEFAULT_VERSION: &str = "4.3.1";

/// The cluster of every test broker.
const CLUSTER: &str = "7TLw_C7XQlOFw0FF4ttP7A";

/// An installed Kafka.
pub(crate) struct Kafka {
    /// The class path that has all of it.
    pub(crate) class_path: String,
    /// A formatted and otherwise empty log directory, to be copied.
    pub(crate) formatted: PathBuf,
}

/// Returns the Kafka to test with; fetches it the first time. Safe to call from several processes.
///
/// # Errors
/// A sentence that says what is missing and what to do.
pub(crate) fn kafka() -> Result<Kafka, String> {
    let version =
        std::env::var("FIRSTSEEN_TEST_KAFKA").unwrap_or_else(|_| DEFAULT_VERSION.to_owned());
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().ok_or("no target directory")?;
    let home = target.join("kafka").join(&version);
    prepare(&home, &version).map_err(|why| {
        format!(
            "no Kafka {version} for the tests: {why}\nThe broker tests need JDK 17 and Maven; \
             FIRSTSEEN_TEST_BROKER=skip leaves them out"
        )
    })?;
    Ok(Kafka { class_path: class_path(&home), formatted: home.join("formatted") })
}

fn class_path(home: &Path) -> String {
    format!("{}/*", home.join("libs").display())
}

fn prepare(home: &Path, version: &str) -> Result<(), String> {
    fs::create_dir_all(home).map_err(|error| format!("{}: {error}", home.display()))?;
    let lock = File::create(home.join("lock")).map_err(|error| error.to_string())?;
    lock.lock().map_err(|error| format!("locking {}: {error}", home.display()))?;
    let done = home.join("done");
    if done.is_file() {
        return Ok(());
    }
    run(Command::new("java").arg("-version"))?;
    fetch(home, version)?;
    format_directory(home)?;
    File::create(done).map(drop).map_err(|error| error.to_string())
}

fn fetch(home: &Path, version: &str) -> Result<(), String> {
    let pom = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/kafka/pom.xml");
    let mut maven = Command::new("mvn");
    maven.args(["-q", "-B", "-f", pom, "dependency:copy-dependencies"]);
    maven.arg(format!("-Dkafka.version={version}"));
    maven.arg(format!("-DoutputDirectory={}", home.join("libs").display()));
    run(&mut maven).map(drop)
}

/// Formats a log directory once; copying it is faster than a JVM for each broker.
fn format_directory(home: &Path) -> Result<(), String> {
    let directory = home.join("formatted");
    if directory.is_dir() {
        fs::remove_dir_all(&directory).map_err(|error| error.to_string())?;
    }
    let properties = home.join("format.properties");
    let text = super::broker::formatting(&directory);
    fs::write(&properties, text).map_err(|error| error.to_string())?;
    let mut tool = Command::new("java");
    tool.args(["-cp", &class_path(home), "kafka.tools.StorageTool", "format", "-t", CLUSTER, "-c"]);
    run(tool.arg(properties)).map(drop)
}

fn run(command: &mut Command) -> Result<Output, String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| format!("cannot run `{program}`: {error}"))?;
    if output.status.success() {
        return Ok(output);
    }
    let told = String::from_utf8_lossy(&output.stderr) + String::from_utf8_lossy(&output.stdout);
    Err(format!("`{program}` failed with {}: {}", output.status, told.trim()))
}
