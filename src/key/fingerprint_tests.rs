//! Pinned values, and the attacks that work on XXH3 where its secret is known.

use std::collections::HashSet;

use xxhash_rust::const_xxh3::const_custom_default_secret;
use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

use super::*;
use crate::key::{KeyPart, NoHeaders};

/// Enough to make chance out of the question, few enough to be quick.
const KEYS: usize = 5_000;

fn counting_secret() -> Secret {
    Secret::from_bytes(std::array::from_fn(|i| u8::try_from(i).unwrap()))
}

fn public_secret() -> [u8; Secret::LEN] {
    const_custom_default_secret(0)
}

fn rule(parts: &[&str]) -> KeyRule {
    KeyRule::new(parts.iter().map(|text| KeyPart::parse(text).unwrap()).collect()).unwrap()
}

fn of_key(hasher: &mut Hasher, key: &[u8]) -> Fingerprint {
    let record = RecordView { key: Some(key), value: None, headers: &NoHeaders };
    hasher.fingerprint(&KeyRule::record_key(), record).unwrap()
}

fn distinct(hasher: &mut Hasher, keys: &[Vec<u8>]) -> usize {
    keys.iter().map(|key| of_key(hasher, key)).collect::<HashSet<_>>().len()
}

/// Stored state depends on these: if one changes, every state in the world is worthless.
#[test]
fn fingerprints_are_pinned() {
    let value = br#"{"id":"o-1","n":7}"#;
    let headers = vec![(b"h".to_vec(), Some(b"x".to_vec()))];
    let all = rule(&["record-key", "value", "header:h", "json:/id", "json:/n"]);
    let long = vec![b'k'; 1_000];
    let pins: [(&KeyRule, &[u8], u128, u128); 5] = [
        (
            &rule(&["record-key"]),
            b"",
            0x59a9_9ce0_44a7_d38a_13f4_a6fc_0bc1_f4fc,
            0xee26_60a6_4333_63e1_2cb3_8197_f271_4579,
        ),
        (
            &rule(&["record-key"]),
            b"order-0000000042",
            0x058b_c0ea_09f3_4a58_f4a2_fa13_7f6d_ff88,
            0x5e77_11de_51aa_3060_503b_626d_7759_7685,
        ),
        (
            &rule(&["record-key"]),
            &long,
            0x19fa_c442_f706_0b01_dfe9_2046_776b_9a61,
            0xe780_4a51_4e96_04f7_635b_62ff_f742_c4f9,
        ),
        (
            &rule(&["json:/id"]),
            b"",
            0x84d1_2508_21c9_b6d1_64e5_98db_e5a0_dd43,
            0x6692_4a72_da0a_0be3_50ba_64f1_3017_19d7,
        ),
        (
            &all,
            b"k",
            0x832a_a0aa_d8c7_0972_4cb1_1b29_8a87_8720,
            0xc4c3_de55_c459_fa0e_eb89_6ef5_9edd_a64e,
        ),
    ];
    let fingerprints = |kind| {
        let mut hasher = Hasher::new(kind, counting_secret());
        pins.map(|(rule, key, ..)| {
            let headers = headers.as_slice();
            let record = RecordView { key: Some(key), value: Some(value), headers };
            hasher.fingerprint(rule, record).unwrap().to_string()
        })
    };
    let hex = |value: u128| format!("{value:032x}");
    assert_eq!(fingerprints(HashKind::Xxh3), pins.map(|(_, _, xxh3, _)| hex(xxh3)));
    assert_eq!(fingerprints(HashKind::Blake3), pins.map(|(_, _, _, blake3)| hex(blake3)));
}

#[test]
fn a_fingerprint_is_the_hash_of_the_encoded_parts() {
    let secret = counting_secret();
    let bytes = b"\x01\x02\0\0\0\0\0\0\0ab";
    let mut hasher = Hasher::new(HashKind::Xxh3, secret.clone());
    let expected = xxhash_rust::xxh3::xxh3_128_with_secret(bytes, secret.as_bytes());
    assert_eq!(of_key(&mut hasher, b"ab"), Fingerprint(expected));

    let key = blake3::derive_key("firstseen fingerprint key 1", secret.as_bytes());
    let mut expected = [0; 16];
    blake3::Hasher::new_keyed(&key).update(bytes).finalize_xof().fill(&mut expected);
    let mut hasher = Hasher::new(HashKind::Blake3, secret);
    assert_eq!(of_key(&mut hasher, b"ab"), Fingerprint(u128::from_le_bytes(expected)));
}

#[test]
fn hash_names_come_back_and_others_are_none() {
    for kind in HashKind::ALL {
        assert_eq!(HashKind::parse(kind.as_str()), Some(kind));
    }
    for name in ["xxh3", "XXH3-128", "", "sha256"] {
        assert_eq!(HashKind::parse(name), None);
    }
}

#[test]
fn a_record_leaves_nothing_behind_for_the_next() {
    for kind in HashKind::ALL {
        let mut used = Hasher::new(kind, counting_secret());
        of_key(&mut used, &[b'x'; 300]);
        let without = RecordView { key: None, value: Some(b"x"), headers: &NoHeaders };
        assert_eq!(used.fingerprint(&rule(&["value", "record-key"]), without), Err(Missing::Null));
        let mut fresh = Hasher::new(kind, counting_secret());
        assert_eq!(of_key(&mut used, b"k"), of_key(&mut fresh, b"k"));
    }
}

#[test]
fn another_secret_gives_other_fingerprints() {
    for kind in HashKind::ALL {
        let mut one = Hasher::new(kind, Secret::generate().unwrap());
        let mut other = Hasher::new(kind, Secret::generate().unwrap());
        assert_ne!(of_key(&mut one, b"k"), of_key(&mut other, b"k"));
    }
}

#[test]
fn neither_secret_nor_key_is_printed() {
    let mut hasher = Hasher::new(HashKind::Blake3, counting_secret());
    of_key(&mut hasher, b"card-4711");
    assert_eq!(format!("{hasher:?}"), "Hasher { kind: Blake3, .. }");
    let record = RecordView { key: Some(b"card-4711"), value: None, headers: &NoHeaders };
    assert_eq!(format!("{record:?}"), "RecordView { key_len: Some(9), value_len: None, .. }");
}

/// Eight bytes of the public secret, as XXH3 reads them.
fn public_word(at: usize) -> [u8; 8] {
    public_secret()[at..at + 8].try_into().unwrap()
}

/// A value for the upper half of a lane so that `low + value` (wrapping) is `sum`.
fn upper_half(low: [u8; 8], sum: u64) -> [u8; 8] {
    sum.wrapping_sub(u64::from_le_bytes(low)).to_le_bytes()
}

/// XXH3-64, 17 to 32 bytes: a lane whose lower half equals the secret's word multiplies by zero,
/// so that its upper half counts for nothing.
fn keys_that_collide_in_xxh3_64() -> Vec<Vec<u8>> {
    let key = |i: usize| {
        let mut key = vec![b'.'; 32];
        key[..8].copy_from_slice(&public_word(0));
        key[8..16].copy_from_slice(&(i as u64).to_le_bytes());
        key
    };
    (0..KEYS).map(key).collect()
}

/// XXH3-128 over `len` bytes, of which the keys are those from `skip` on: in two lanes that are
/// folded into the same accumulator the products are zero, and their sums are kept in step.
///
/// Takes, as offsets into the hashed bytes and the secret: the two lanes, and the lanes folded
/// between them into the same half, whose product must vanish, too.
fn keys_that_collide_in_xxh3_128(
    len: usize,
    skip: usize,
    lanes: [(usize, usize); 2],
    between: (usize, usize),
) -> Vec<Vec<u8>> {
    let key = |i: usize| {
        let mut bytes = vec![b'.'; len];
        bytes[between.0..between.0 + 8].copy_from_slice(&public_word(between.1));
        for (lane, secret) in lanes {
            let low = public_word(secret);
            bytes[lane..lane + 8].copy_from_slice(&low);
            bytes[lane + 8..lane + 16].copy_from_slice(&upper_half(low, i as u64));
        }
        bytes.split_off(skip)
    };
    (0..KEYS).map(key).collect()
}

/// As an attacker would who does not know that keys are framed before they are hashed.
fn keys_that_collide_unframed() -> Vec<Vec<u8>> {
    keys_that_collide_in_xxh3_128(64, 0, [(32, 48), (48, 16)], (0, 0))
}

/// As an attacker would who knows the frame of nine bytes: 87 bytes of key are 96 bytes hashed.
fn keys_that_collide_framed() -> Vec<Vec<u8>> {
    keys_that_collide_in_xxh3_128(96, 9, [(48, 80), (64, 48)], (16, 32))
}

#[test]
fn the_attacks_work_where_the_secret_is_public() {
    let hashes: HashSet<_> = keys_that_collide_in_xxh3_64().iter().map(|k| xxh3_64(k)).collect();
    assert_eq!(hashes.len(), 1);
    let hashes: HashSet<_> = keys_that_collide_unframed().iter().map(|k| xxh3_128(k)).collect();
    assert_eq!(hashes.len(), 1);
    let mut hasher = Hasher::new(HashKind::Xxh3, Secret::from_bytes(public_secret()));
    let keys = keys_that_collide_framed();
    assert_eq!(keys.iter().collect::<HashSet<_>>().len(), KEYS);
    assert_eq!(distinct(&mut hasher, &keys), 1);
}

#[test]
fn the_attacks_fail_under_a_random_secret() {
    for kind in HashKind::ALL {
        for keys in [
            keys_that_collide_in_xxh3_64(),
            keys_that_collide_unframed(),
            keys_that_collide_framed(),
        ] {
            let mut hasher = Hasher::new(kind, Secret::generate().unwrap());
            assert_eq!(distinct(&mut hasher, &keys), KEYS);
        }
    }
}

#[test]
fn the_content_of_a_record_tells_null_from_empty_and_one_time_from_another() {
    let mut hasher = Hasher::new(HashKind::Xxh3, Secret::from_bytes([7; Secret::LEN]));
    let view = |key, value| RecordView { key, value, headers: &NoHeaders };
    let base = hasher.content(view(None, Some(b"v".as_slice())), 5);
    assert_eq!(hasher.content(view(None, Some(b"v".as_slice())), 5), base);
    assert_ne!(hasher.content(view(Some(b"".as_slice()), Some(b"v".as_slice())), 5), base);
    assert_ne!(hasher.content(view(None, Some(b"v".as_slice())), 6), base);
    assert_ne!(hasher.content(view(Some(b"v".as_slice()), None), 5), base);
}
