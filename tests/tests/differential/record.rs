//! Recorded answers of a real API server, as one number per sequence.

use std::path::PathBuf;

use anyhow::Context as _;

use crate::play::Exchange;

fn file() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/differential/answers.bin"))
}

/// The numbers of all sequences, in their order.
pub fn read() -> anyhow::Result<Vec<u64>> {
    let bytes = std::fs::read(file()).context("the answers of a real API server; set RECORD_ANSWERS to make them")?;
    Ok(bytes.as_chunks::<8>().0.iter().map(|chunk| u64::from_le_bytes(*chunk)).collect())
}

pub fn write(numbers: &[u64]) -> anyhow::Result<()> {
    let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    Ok(std::fs::write(file(), bytes)?)
}

/// All answers of a sequence as one number, the same on every machine: as FNV-1a, though of eight bytes at a time.
pub fn number(exchanges: &[Exchange]) -> u64 {
    let mut number = 0xcbf2_9ce4_8422_2325_u64;
    let mut mix = |word: u64| number = (number ^ word).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(29);
    for exchange in exchanges {
        let text = exchange.answer.to_string();
        let (words, rest) = text.as_bytes().as_chunks::<8>();
        for word in words {
            mix(u64::from_le_bytes(*word));
        }
        for byte in rest {
            mix(u64::from(*byte));
        }
    }
    number
}
