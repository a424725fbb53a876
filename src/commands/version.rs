//! The long form of `--version`: what this build is made of, for bug reports.

use std::sync::OnceLock;

const CODECS: &[&str] = &["gzip", "snappy", "lz4", "zstd"];

/// Returns the version with the client library, its built-in features and its codecs.
pub fn long() -> &'static str {
    static LONG: OnceLock<String> = OnceLock::new();
    LONG.get_or_init(|| {
        let (_, librdkafka) = rdkafka::util::get_rdkafka_version();
        let features = built_in_features().unwrap_or_else(|| "unknown".to_owned());
        let codecs: Vec<_> =
            CODECS.iter().filter(|codec| features.split(',').any(|f| f == **codec)).collect();
        let codecs: Vec<&str> = codecs.into_iter().copied().collect();
        format!(
            "{}\nlibrdkafka {librdkafka}\nfeatures: {features}\ncodecs: {}\ntarget: {}-{}",
            env!("CARGO_PKG_VERSION"),
            codecs.join(","),
            std::env::consts::ARCH,
            std::env::consts::OS,
        )
    })
}

fn built_in_features() -> Option<String> {
    let native = rdkafka::ClientConfig::new().create_native_config().ok()?;
    native.get("builtin.features").ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_build_has_tls_sasl_and_every_codec() {
        let long = long();
        for feature in ["ssl", "sasl_plain", "sasl_scram", "sasl_oauthbearer"] {
            assert!(long.contains(feature), "no {feature} in:\n{long}");
        }
        assert!(long.contains("codecs: gzip,snappy,lz4,zstd"), "{long}");
    }
}
