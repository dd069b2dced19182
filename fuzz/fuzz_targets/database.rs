#![no_main]

#[path = "../../tests/corpus/bounded.rs"]
mod bounded;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    taffrail::testing::fuzzing::database(data);
});
